// kinora/renames.hpp: every rule of its patterns. The models' tests hold the tables against lists of
// published names.
#include "kinora/renames.hpp"

#include <gtest/gtest.h>

namespace kinora {
namespace {

Renames made() {
  return Renames{
      {"head", "proj_out"}, {"blocks.*.norm2", "blocks.*.norm3"}, {"blocks.*.norm3", "blocks.*.norm2"}}
      .add("down.*.layers.2", "down.*.sampler")
      .under("down.*.layers.*", "down_blocks.*.resnets.*", {{"residual.0", "norm1"}, {"", ""}})
      .under("mid", "middle", {{"q", "to_q"}});
}

TEST(Renames, GoBothWays) {
  const Renames names = made();
  for (const auto& [theirs, ours] : std::vector<Renames::Row>{
           {"head", "proj_out"},
           {"head.weight", "proj_out.weight"},
           {"blocks.12.norm2.bias", "blocks.12.norm3.bias"},  // exchanged
           {"blocks.0.norm3.bias", "blocks.0.norm2.bias"},
           {"down.3.layers.10.residual.0.gamma", "down_blocks.3.resnets.10.norm1.gamma"},
           {"down.3.layers.1.shortcut", "down_blocks.3.resnets.1.shortcut"},
           {"down.3.layers.2.conv", "down.3.sampler.conv"},  // an earlier row
           {"mid.q.weight", "middle.to_q.weight"},
       }) {
    EXPECT_EQ(names.ours(theirs), ours);
    EXPECT_EQ(names.theirs(ours), theirs);
  }
}

TEST(Renames, LeaveOtherNamesAsTheyAre) {
  const Renames names = made();
  for (const char* name : {"", "header.weight", "a.head", "blocks.norm2", "blocks.x.norm2", "blocks..norm2",
                           "blocks.1.norm22", "mid", "mid.k.weight", "down.3.layers"}) {
    EXPECT_EQ(names.ours(name), name);
    EXPECT_EQ(names.theirs(name), name);
  }
}

}  // namespace
}  // namespace kinora
