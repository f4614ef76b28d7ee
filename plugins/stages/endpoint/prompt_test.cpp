#include "prompt.hpp"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "answers.hpp"

namespace kinora::endpoint {
namespace {

TEST(Template, FillsCaptionAndFacts) {
  const Json facts{{"duration_s", 3.5}, {"bin", {{"aspect", "16:9"}}}, {"labels", {"a", "b"}}};
  EXPECT_EQ(Template("{caption}|{duration_s}|{bin.aspect}|{labels}|{{x}}").fill("A {boat}.", facts),
            "A {boat}.|3.5|16:9|[\"a\",\"b\"]|{x}");
  EXPECT_EQ(Template("").fill("c", facts), "");
  EXPECT_THROW(Template("{missing}").fill("c", facts), Error);
  EXPECT_THROW(Template("{bin.size}").fill("c", facts), Error);
  EXPECT_THROW(Template("{duration_s.x}").fill("c", facts), Error);
  for (const char* odd : {"{", "}", "{}", "a } b", "{caption", "{a{b}}"})
    EXPECT_THROW(Template{odd}, Error) << odd;
}

TEST(ChatRequest, HasWhatWasAskedForAndNothingElse) {
  ChatOptions o;
  o.model = "m";
  o.temperature = -1;
  EXPECT_EQ(chat_request(o, "p"),
            Json::parse(R"({"model":"m","max_tokens":1024,"messages":[{"role":"user","content":"p"}]})"));
  o.system = "s";
  o.temperature = 0.5;
  o.seed = 7;
  o.max_tokens_name = "max_completion_tokens";
  EXPECT_EQ(chat_request(o, "p", {"data:x"}, "low"),
            Json::parse(R"({"model":"m","max_completion_tokens":1024,"temperature":0.5,"seed":7,"messages":[
    {"role":"system","content":"s"},{"role":"user","content":[
    {"type":"image_url","image_url":{"url":"data:x","detail":"low"}},{"type":"text","text":"p"}]}]})"));
}

TEST(Regions, CountWhatOverlapsOnceAndWhatIsOutsideNotAtAll) {
  EXPECT_EQ(covered({}), 0);
  EXPECT_DOUBLE_EQ(covered({{0.1, 0.2, 0.3, 0.6}}), 0.08);
  EXPECT_DOUBLE_EQ(covered({{0.3, 0.6, 0.1, 0.2}}), 0.08);
  EXPECT_DOUBLE_EQ(covered({{0, 0, 0.5, 0.5}, {0.25, 0.25, 0.75, 0.75}}), 0.25 + 0.25 - 0.0625);
  EXPECT_DOUBLE_EQ(covered({{-3, -1, 0.5, 9}, {2, 2, 3, 3}}), 0.5);
  EXPECT_DOUBLE_EQ(covered({{0, 0, 1, 1}, {0.2, 0.2, 0.4, 0.4}}), 1);
}

// Compared with counting the cells of a grid that contains all edges.
TEST(Regions, EqualCountedCells) {
  std::mt19937 random(3);
  constexpr int kGrid = 24;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Box> boxes;
    std::vector<bool> cell(kGrid * kGrid);
    const int n = static_cast<int>(random() % 12);
    for (int i = 0; i < n; ++i) {
      int x0 = random() % kGrid, x1 = random() % (kGrid + 1), y0 = random() % kGrid,
          y1 = random() % (kGrid + 1);
      boxes.push_back({x0 / 24.0, y0 / 24.0, x1 / 24.0, y1 / 24.0});
      if (x0 > x1) std::swap(x0, x1);
      if (y0 > y1) std::swap(y0, y1);
      for (int y = y0; y < y1; ++y)
        for (int x = x0; x < x1; ++x) cell[static_cast<size_t>(y * kGrid + x)] = true;
    }
    const auto counted = std::count(cell.begin(), cell.end(), true);
    ASSERT_NEAR(covered(boxes), static_cast<double>(counted) / (kGrid * kGrid), 1e-12) << trial;
  }
}

}  // namespace
}  // namespace kinora::endpoint
