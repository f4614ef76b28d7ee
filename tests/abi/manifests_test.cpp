// The manifests of ABI 1.0 (tests/abi/v1/manifests) are read as they were when it was released.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/manifest.hpp"

namespace kinora::core::test {
namespace {

using testing::ElementsAre;

PluginSpec manifest(const std::string& name) {
  std::ifstream in(std::string(KINORA_ABI_V1) + "/manifests/" + name);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto read = or_throw(parse_manifest(text, name));
  EXPECT_THAT(read.warnings, testing::IsEmpty()) << "a key is no longer known";
  for (const auto& c : read.components) EXPECT_EQ(c.unusable, "") << c.id;
  return read;
}

TEST(ManifestsOf1_0, EveryKeyMeansWhatItMeant) {
  const PluginSpec p = manifest("stable.toml");
  EXPECT_EQ(p.name + p.version, "every-key1.2.3");
  EXPECT_EQ(p.tier, Tier::stable);
  ASSERT_EQ(p.components.size(), 2u);
  const ComponentSpec& c = p.components[0];
  EXPECT_EQ(c.kind + c.name, "stageacme.every");
  EXPECT_THAT(c.formerly, ElementsAre("old.every", "older"));
  EXPECT_THAT(c.needs, ElementsAre("eager"));
  EXPECT_TRUE(c.draws);
  EXPECT_EQ(c.results, 2);
  ASSERT_EQ(c.inputs.size(), 2u);
  EXPECT_TRUE(c.inputs[0].is_optional);
  EXPECT_EQ(c.inputs[1].when + c.inputs[1].when_value, "modeboth");
  EXPECT_THAT(c.inputs[1].shapes(), ElementsAre(ElementsAre("B", "D"), ElementsAre("B", "2 * D + 1")));
  ASSERT_EQ(c.outputs.size(), 2u);
  EXPECT_EQ(c.outputs[0].per + c.outputs[0].when, "clipcount");
  ASSERT_EQ(c.scores.size(), 1u);
  EXPECT_EQ(c.scores[0].name + c.scores[0].title + c.scores[0].unit, "acme.glowGlowcd");
  ASSERT_EQ(c.options.size(), 10u);
  EXPECT_EQ(*c.option("count")->min + *c.option("count")->max, 10);
  EXPECT_EQ(c.option("count")->unit, "frames");
  EXPECT_EQ(*c.option("share")->above + *c.option("share")->below, 1);
  EXPECT_TRUE(c.option("share")->is_bound);
  EXPECT_EQ(c.option("room")->default_value, 2 << 20);
  EXPECT_TRUE(c.option("on")->how_only);
  EXPECT_THAT(c.option("mode")->choices, ElementsAre("both", "one"));
  EXPECT_TRUE(c.option("file")->required);
  EXPECT_THAT(c.option("sizes")->config, ElementsAre("sizes", "text.sizes[0] ?? 768"));
  EXPECT_EQ(p.components[1].results, 1);
  EXPECT_FALSE(p.components[1].draws);
}

TEST(ManifestsOf1_0, APinnedPlugin) {
  const PluginSpec p = manifest("pinned.toml");
  EXPECT_EQ(p.tier, Tier::pinned);
  EXPECT_EQ(p.torch + p.cxx_abi + p.cuda, "2.11.0113.0");
  ASSERT_EQ(p.components.at(0).layouts.size(), 1u);
  EXPECT_EQ(p.components[0].layouts[0].name, "original");
}

}  // namespace
}  // namespace kinora::core::test
