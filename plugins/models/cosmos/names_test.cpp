#include <set>

#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "plugins/models/cosmos/config.hpp"
#include "tests/support/oracle.hpp"

namespace kinora::cosmos {
namespace {

// Every key of a checkpoint of two blocks, with the name from diffusers' converter; empty: dropped.
struct Keys : testing::TestWithParam<const char*> {
  core::json pairs = test::Oracle("cosmos_dit.safetensors", GetParam()).options;
  Release release = std::string(GetParam()) == "keys.predict1" ? Release::predict1 : Release::predict2;
};

TEST_P(Keys, OfAWholeCheckpointBecomeDiffusers) {
  ASSERT_GT(pairs.size(), 40u);
  for (const auto& [original, wanted] : pairs.items()) {
    EXPECT_EQ(diffusers_name("net." + original, release), wanted) << original;
    EXPECT_EQ(diffusers_name(original, release), wanted) << original;
  }
}

TEST_P(Keys, ComeBackTheSame) {
  for (const auto& [original, wanted] : pairs.items()) {
    const std::string name = wanted;
    if (name.empty()) continue;
    EXPECT_EQ(original_name(name, release), "net." + original);
  }
  EXPECT_EQ(original_name(diffusers_name("net.unknown.weight", release), release), "net.unknown.weight");
}

// The releases' files can be distinguished: names of the other release's blocks are unchanged, and are not
// parameters.
TEST_P(Keys, OfTheOtherReleaseAreNotTaken) {
  const auto other = release == Release::predict1 ? Release::predict2 : Release::predict1;
  for (const auto& [original, wanted] : pairs.items()) {
    if (wanted.get<std::string>().empty() || !original.starts_with("blocks.")) continue;
    EXPECT_EQ(diffusers_name(original, other), original);
  }
}

TEST_P(Keys, CoverEveryParameterOfTheModelOnce) {
  core::json options = {{"size", release == Release::predict1 ? "predict1-7B" : "predict2-2B"}};
  test::plugins();
  core::Chain chain(core::ChainOptions{}, {});
  const test::Instance<kinora_model> model("model/cosmos", options, chain.head());  // declared, not allocated
  std::multiset<std::string> declared, given;
  const auto of_two_blocks = [](const std::string& name) {
    const std::string start = "transformer_blocks.";
    return name.rfind(start, 0) != 0 || std::stoi(name.substr(start.size())) < 2;
  };
  for (const auto& p : chain.parameters())
    if (of_two_blocks(p.name)) declared.insert(p.name);
  for (const auto& [original, wanted] : pairs.items())
    if (const auto name = diffusers_name(original, release); !name.empty() && name.rfind("logvar.", 0) != 0)
      given.insert(name);
  EXPECT_EQ(given, declared);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Keys, testing::Values("keys.predict1", "keys.predict2"),
                         [](const auto& info) { return std::string(info.param).substr(5); });

TEST(Names, OfNeitherLayoutStayAsTheyAre) {
  for (const char* name :
       {"blocks.block0.blocks.3.block.attn.to_q.0.weight", "blocks.x.self_attn.q_proj.weight",
        "blocks.block0.blocks.2.block.attn.to_q.0.weight", "blocks.0.self_attention.q_proj.weight",
        "networks.0.weight", "blocks", ""})
    for (const auto release : {Release::predict1, Release::predict2})
      EXPECT_EQ(diffusers_name(name, release), name);
}

}  // namespace
}  // namespace kinora::cosmos
