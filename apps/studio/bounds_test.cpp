#include "apps/studio/bounds.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;

class BoundsTest : public testing::Test {
 protected:
  BoundsTest() {
    std::string name = (fs::temp_directory_path() / "kinora-studio-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~BoundsTest() override { fs::remove_all(folder_); }

  // "STAGE OPTION COLUMN >= VALUE" of each bound of a job with these stages and their options.
  std::vector<std::string> bounds(const std::vector<std::pair<std::string, json>>& stages) {
    json components = json::array();
    for (const auto& [stage, options] : stages)
      components.push_back({{"slot", "stages"}, {"id", "stage/" + stage}, {"options", options}});
    std::ofstream(folder_ / "job.json") << json{{"kind", "curate"}, {"components", components}};
    std::vector<std::string> out;
    for (const StageBound& bound : bounds_of({{"clips", folder_}}))
      out.push_back(bound.stage + " " + bound.option + " " + bound.column +
                    (bound.is_most ? " <= " : " >= ") + json(bound.value).dump());
    return out;
  }

  fs::path folder_;
};

TEST_F(BoundsTest, AreThoseOfStagesThatFilter) {
  EXPECT_THAT(
      bounds(
          {{"video.probe", {{"threads", 1}}},
           {"filter.black", {{"mode", "on"}, {"at_most", 0.33}, {"pixel", 0.1}}},
           {"filter.blur", {{"mode", "score"}, {"at_least", 3.0}}},
           {"filter.flow", {{"mode", "on"}, {"at_least", 0.002}, {"at_most", 1e300}, {"p10_at_least", 0.5}}},
           {"filter.motion", {{"mode", "on"}, {"global_mean", 0.001}, {"patch_min", 1e-6}}},
           {"filter.letterbox", {{"mode", "crop"}, {"at_most", 0.02}}},
           {"filter.facts", {{"mode", "on"}, {"fact", "height"}, {"at_least", 360}, {"at_most", 1e300}}}}),
      ElementsAre("filter.black at_most scores.filter.black <= 0.33",
                  "filter.flow at_least scores.filter.flow >= 0.002",
                  "filter.flow p10_at_least scores.filter.flow.p10 >= 0.5",
                  "filter.motion global_mean scores.filter.motion >= 0.001",
                  "filter.motion patch_min scores.filter.motion.patch_min >= 1e-06",
                  "filter.facts at_least height >= 360.0"));
}

TEST_F(BoundsTest, AFileThatIsNoneOrOfAnotherFormHasNoBounds) {
  EXPECT_TRUE(bounds_of({{"clips", folder_}}).empty());
  for (const char* text :
       {"", "[1]", R"({"components": 3})", R"({"components": [3, {"id": 4, "slot": "stages"}]})",
        R"({"components": [{"slot": "stages", "id": "stage/filter.x", "options": {"at_least": "3"}}]})"}) {
    std::ofstream(folder_ / "job.json") << text;
    EXPECT_TRUE(bounds_of({{"clips", folder_}}).empty()) << text;
  }
}

// Scores 1 to 6 of a filter that keeps 3 and more; the clip of score 1 was filtered by another rule.
Catalogue six() {
  Catalogue out;
  out.jobs = {{"clips", "/none"}, {"others", "/none"}};
  for (int score = 1; score <= 6; ++score) {
    Clip clip;
    clip.key = "k" + std::to_string(score);
    clip.end = score < 3 ? End::filtered : End::kept;
    clip.reason = score == 1 ? "filter.black" : score == 2 ? "filter.blur" : "";
    out.clips.push_back(clip);
    out.columns["scores.filter.blur"].push_back(score);
  }
  out.clips.push_back(out.clips.back());  // of a job without this bound
  out.clips.back().job = 1;
  out.columns["scores.filter.blur"].push_back(4);
  return out;
}

TEST(Moved, CountsTheClipsThatGoAndThoseThatComeBack) {
  const Catalogue all = six();
  const std::vector<StageBound> bounds{
      {{"filter.blur", "at_least", "filter.blur", "scores.filter.blur", false, 3}, 0}};
  const auto at = [&](double value) {
    const Moved out = moved(all, bounds, "scores.filter.blur", false, value);
    return std::pair(out.gone, out.back);
  };
  EXPECT_EQ(at(3), std::pair(0L, 0L));
  EXPECT_EQ(at(4.5), std::pair(2L, 0L)) << "3 and 4; 4 of the other job stays";
  EXPECT_EQ(at(2), std::pair(0L, 1L)) << "a clip that equals the bound is kept";
  EXPECT_EQ(at(0), std::pair(0L, 1L)) << "the clip of another rule stays filtered";
  const auto is_k4 = [](const Clip& clip) { return clip.key == "k4"; };
  EXPECT_EQ(moved(all, bounds, "scores.filter.blur", false, 4.5, "", is_k4).gone, 1) << "people rejected k4";
  EXPECT_EQ(moved(all, bounds, "scores.filter.blur", true, 0).gone, 0) << "this side has none";
  EXPECT_EQ(moved(all, bounds, "none", false, 9).gone, 0);
}

}  // namespace
}  // namespace kinora::studio
