// The parameters that models declare as tables, which weight decay skips, checked by their published names.
#include <regex>

#include <gtest/gtest.h>

#include "tests/conformance/models.hpp"
#include "tests/support/plugins.hpp"

namespace kinora {
namespace {

TEST(Conformance, WhatIsLookedUpOrAddedIsATable) {
  const std::regex table(
      "pos_embed|pos_emb_|emb_[thw]\\.|scale_shift_table|^shared|_embeddings?(\\.weight)?$");
  int64_t tables = 0;
  for (const auto& small : test::small_models()) {
    const auto model = core::or_throw(test::plugins().open(small.id));
    core::Model network(model, core::or_throw(core::Options::make(*model.spec, small.options)), {});
    const bool tied = small.options.value("tied", false);
    for (const auto& p : network.chain().parameters()) {
      if (p.shape.size() < 2 || p.shape.size() > 3) continue;  // vectors; a patch_embedding is a convolution
      const bool multiplied = tied && p.name == "tok_embeddings.weight";
      const bool looked_up = p.role == KINORA_ROLE_TABLE || p.role == KINORA_ROLE_VOCAB;
      EXPECT_EQ(looked_up, !multiplied && std::regex_search(p.name, table)) << small.id << ": " << p.name;
      tables += looked_up;
    }
  }
  EXPECT_GT(tables, 20);
}

}  // namespace
}  // namespace kinora
