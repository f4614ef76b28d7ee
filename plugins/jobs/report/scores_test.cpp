#include "plugins/jobs/report/scores.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core::report {
namespace {

using nlohmann::json;
using testing::ElementsAre;

const double kNoScore = std::nan("");

json measured(const std::string& name, double value) { return {{"scores", {{name, value}}}}; }

// The distribution of a score with these values of items that were kept.
json distribution(const std::vector<double>& values) {
  Scores scores;
  for (const double value : values) scores.add(measured("glow", value), "", kNoScore);
  return distribution_of("glow", scores.all().at("glow"), {});
}

TEST(Scores, ADistributionHasEveryItem) {
  const json few = distribution({4, 1, 2.5, 3});
  EXPECT_EQ(few["values"], 4);
  EXPECT_EQ(few["low"], 1);
  EXPECT_EQ(few["high"], 4);
  EXPECT_EQ(few["median"], 2.75);
  const std::vector<int64_t> bars = few["bars"];
  EXPECT_EQ(std::accumulate(bars.begin(), bars.end(), int64_t{0}), 4);
  EXPECT_EQ(bars.front(), 1);
  EXPECT_EQ(bars.back(), 1);
  const json whole = distribution({3, 0, 1, 1});
  EXPECT_EQ(whole["bars"], (json{1, 2, 0, 1}));
  EXPECT_EQ(whole["from"], -0.5);
  EXPECT_EQ(whole["to"], 3.5);
  EXPECT_EQ(distribution({0.2, 0.2})["bars"], json::array({2}));
}

TEST(Scores, PositiveValuesOfManySizesHaveALogarithmicScale) {
  std::vector<double> values;
  for (int i = 0; i < 320; ++i) values.push_back(0.05 * std::pow(1e5, i / 319.0));
  const json wide = distribution(values);
  const std::vector<double> edges = wide["edges"];
  const std::vector<int64_t> bars = wide["bars"];
  ASSERT_EQ(edges.size(), bars.size() + 1);
  EXPECT_EQ(edges.front(), 0.05);
  EXPECT_EQ(edges.back(), wide["high"]);
  for (const int64_t bar : bars) EXPECT_NEAR(static_cast<double>(bar), 10, 1);
  values.front() = -1;
  EXPECT_TRUE(distribution(values)["edges"].empty());
  values.front() = 0;
  EXPECT_EQ(distribution(values)["bars"][0], 1) << "the bar of zero";
}

// Differences of such numbers are infinite or zero.
TEST(Scores, EveryFiniteNumberIsInABar) {
  using Limits = std::numeric_limits<double>;
  for (const auto& values : std::vector<std::vector<double>>{{-Limits::max(), 0, Limits::max()},
                                                             {0, Limits::denorm_min()},
                                                             {Limits::denorm_min(), 1, Limits::max()},
                                                             {1e16, 1e16 + 2},
                                                             {1e300, 1e300},
                                                             {-0.0, 0.0}}) {
    const json all = distribution(values);
    const std::vector<int64_t> bars = all["bars"];
    EXPECT_EQ(std::accumulate(bars.begin(), bars.end(), int64_t{0}), std::ssize(values)) << all;
    EXPECT_TRUE(std::isfinite(all["median"].get<double>())) << all;
  }
}

TEST(Scores, WhatIsNoNumberIsNoScore) {
  Scores scores;
  scores.add({{"scores", {{"text", "3"}, {"list", {1}}, {"none", nullptr}}}}, "", kNoScore);
  scores.add({{"scores", 3}}, "", kNoScore);
  scores.add(json::object(), "clip.no-bin", kNoScore);
  EXPECT_TRUE(scores.all().empty());
}

TEST(Scores, AFilteredItemCountsAtTheBoundThatItBreaks) {
  Scores scores;
  for (const double value : {1.0, 5.0, 9.0, 9.5}) {
    const bool is_kept = value == 5;
    scores.add(measured("glow", value), is_kept ? "" : "glow", is_kept ? kNoScore : value);
  }
  scores.add(measured("glow", 0.5), "other", 0.5);  // filtered by another rule
  const auto bound = [](bool is_most, double value, const char* select = "", int64_t removed = 0) {
    return UsedBound{{.rule = "glow", .is_most = is_most, .value = value}, select, removed};
  };
  const json all = distribution_of("glow", scores.all().at("glow"),
                                   {bound(false, 2), bound(true, 8), bound(false, 3, "good", 7)});
  std::vector<int64_t> removed;
  for (const auto& one : all["bounds"]) removed.push_back(one["removed"]);
  EXPECT_THAT(removed, ElementsAre(1, 2, 7));
  EXPECT_EQ(all["bounds"][0]["by"], "glow");
  EXPECT_EQ(all["bounds"][2]["by"], "good");
  const std::vector<int64_t> out = all["out"];
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), int64_t{0}), 3);
  EXPECT_EQ(all["values"], 5);
}

// A stage whose options have other names notes the bound with what it drops; its score may be the rule's alone.
TEST(Scores, BoundsAreAlsoThoseThatItemsHave) {
  Scores scores;
  scores.add({{"bounds", {{"glow", {{"at_most", 8}}}}}}, "glow", 9);
  const Score& glow = scores.all().at("glow");
  const json noted = distribution_of("glow", glow, {})["bounds"];
  ASSERT_EQ(noted.size(), 1U);
  EXPECT_EQ(noted[0]["is_most"], true);
  EXPECT_EQ(noted[0]["value"], 8);
  EXPECT_EQ(noted[0]["removed"], 1);
  const UsedBound option{{.rule = "glow", .is_most = true, .value = 8}, "", 0};
  EXPECT_EQ(distribution_of("glow", glow, {option})["bounds"].size(), 1U)
      << "the stage's option says it already";
}

TEST(Scores, AConditionNamesThemAsFactsAreFound) {
  Scores scores;
  scores.add({{"scores", {{"filter.blur", 1}, {"glow", 2}, {"width", 3}}}, {"width", 640}}, "", kNoScore);
  EXPECT_EQ(scores.score_named("blur"), "filter.blur");
  EXPECT_EQ(scores.score_named("filter.blur"), "filter.blur");
  EXPECT_EQ(scores.score_named("scores.filter.blur"), "filter.blur");
  EXPECT_EQ(scores.score_named("glow"), "glow");
  EXPECT_EQ(scores.score_named("width"), "") << "the fact comes first";
  EXPECT_EQ(scores.score_named("scores.width"), "width");
  EXPECT_EQ(scores.score_named("none"), "");
}

TEST(Scores, ThereIsABoundOnTheirNumber) {
  Scores scores;
  for (int i = 0; i < 10'000; ++i) scores.add(measured("s" + std::to_string(i), i), "", kNoScore);
  EXPECT_EQ(scores.all().size(), 120U);
}

}  // namespace
}  // namespace kinora::core::report
