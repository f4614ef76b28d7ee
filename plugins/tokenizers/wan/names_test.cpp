// Names and shapes of the published Wan VAEs, in diffusers' form and in the original one.
#include "plugins/tokenizers/wan/names.hpp"

#include "core/torch/context/network.hpp"
#include "plugins/tokenizers/wan/wan_fixture.hpp"

namespace kinora {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

class WanNames : public ::testing::TestWithParam<const char*> {
 protected:
  // original, diffusers: name -> shape; converted: diffusers' own name for each original one (2.1)
  core::json lists() { return test::Oracle("wan_vae.safetensors", "names").options[GetParam()]; }
};

TEST_P(WanNames, OfOriginalCheckpointsMapOneToOne) {
  const auto all = lists();
  const auto expected = all["diffusers"].get<Shapes>();
  Shapes mapped;
  for (const auto& [name, shape] : all["original"].get<Shapes>())
    EXPECT_TRUE(mapped.emplace(wan::diffusers_name(name), shape).second) << name << " maps to a name twice";
  EXPECT_EQ(mapped, expected);
  const core::json converted = all.value("converted", core::json::object());
  for (const auto& [name, to] : converted.items()) EXPECT_EQ(wan::diffusers_name(name), to);
  for (const auto& [name, shape] : expected)
    EXPECT_EQ(wan::diffusers_name(name), name) << "already diffusers'";
}

// Declared, never allocated.
TEST_P(WanNames, OfThePresetAreThePublishedOnes) {
  test::plugins();
  core::Chain chain(core::ChainOptions{}, {});
  const test::Instance<kinora_tokenizer> tokenizer("tokenizer/wan", {{"size", GetParam()}}, chain.head());
  Shapes declared;
  int64_t numel = 0;
  for (const auto& p : chain.parameters()) declared[p.name] = p.shape, numel += p.numel();
  EXPECT_EQ(declared, lists()["diffusers"].get<Shapes>());
  const bool small = std::string(GetParam()) == "2.1";
  EXPECT_EQ(declared.size(), small ? 194u : 196u);
  EXPECT_EQ(numel, small ? 126892531 : 704688668);
}

INSTANTIATE_TEST_SUITE_P(Published, WanNames, ::testing::Values("2.1", "2.2"),
                         [](const auto& info) { return info.param[2] == '1' ? "Wan21" : "Wan22"; });

TEST(WanName, OfAnythingElseStaysAsItIs) {
  for (const char* name : {"encoder.downsamples.x.weight", "decoder.upsamples.", "conv3.weight", ""})
    EXPECT_EQ(wan::diffusers_name(name), name);
}

}  // namespace
}  // namespace kinora
