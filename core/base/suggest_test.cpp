#include "core/base/suggest.hpp"

#include <gtest/gtest.h>

namespace kinora::core {
namespace {

TEST(EditDistance, CountsInsertDeleteReplaceSwap) {
  const struct {
    const char *a, *b;
    size_t distance;
  } cases[] = {
      {"", "", 0},          {"abc", "", 3},         {"steps", "steps", 0},      {"stpes", "steps", 1},
      {"step", "steps", 1}, {"steeps", "steps", 1}, {"stops", "steps", 1},      {"kitten", "sitting", 3},
      {"ca", "abc", 3},     {"Steps", "sTEPS", 0},  {"edm_heun", "edm-heun", 0}};
  for (const auto& c : cases) {
    EXPECT_EQ(edit_distance(c.a, c.b), c.distance) << c.a << " " << c.b;
    EXPECT_EQ(edit_distance(c.b, c.a), c.distance) << c.b << " " << c.a;
  }
}

TEST(Suggest, NamesTheNearestOrNothing) {
  const std::vector<std::string> options = {"steps", "rho", "sigma_min", "sigma_max"};
  const struct {
    const char *word, *meant;
  } cases[] = {{"stpes", "steps"},
               {"step", "steps"},
               {"sigma-max", "sigma_max"},
               {"sigmamin", "sigma_min"},
               {"rh", "rho"},
               {"roh", "rho"},
               {"sigma", "sigma_min"},
               {"rhombus", "rho"},
               {"guidance", ""},
               {"x", ""},
               {"", ""},
               {"abc", ""}};
  for (const auto& c : cases) EXPECT_EQ(suggest(c.word, options), c.meant) << c.word;
  EXPECT_EQ(suggest("shots.contnt", {"shots", "shots.content"}), "shots.content");
  EXPECT_EQ(did_you_mean("stpes", options), ", did you mean 'steps'?");
  EXPECT_EQ(did_you_mean("stpes", {}), "");
  EXPECT_EQ(did_you_mean_or_list("zzz", {"a", "b"}, "kinds"), "; kinds: a, b");
}

TEST(Suggest, TakesHugeWordsWithoutHugeTables) {
  EXPECT_EQ(suggest(std::string(1 << 20, 'a'), {"steps"}), "");
}

}  // namespace
}  // namespace kinora::core
