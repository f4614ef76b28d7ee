// stage/shots.merge on embeddings with known angles.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/testing.hpp"
#include "merge_stage.hpp"

namespace kinora::embed {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Unit vectors in a plane, by degrees; a NaN is a shot without frames.
FloatArray at_degrees(const std::vector<double>& degrees) {
  FloatArray out{{static_cast<int64_t>(degrees.size()), 2}, {}};
  for (const double d : degrees) {
    const double radians = d / 180 * std::acos(-1.0);
    out.values.push_back(std::isnan(d) ? 0 : static_cast<float>(std::cos(radians)));
    out.values.push_back(std::isnan(d) ? 0 : static_cast<float>(std::sin(radians)));
  }
  return out;
}

double cosine_of(double degrees) { return std::cos(degrees / 180 * std::acos(-1.0)); }

struct Video {
  testing::Collector out;
  explicit Video(const FloatArray& rows, const ShotsMerge::Options& options = {}, json shots = json()) {
    testing::start();
    Sample video("f");
    if (shots.is_null()) {
      shots = {{"fps", 25},
               {"frames", 1000},
               {"cuts", json::array()},
               {"times_us", json::array()},
               {"scores", json::array({0.5})}};
      for (int64_t i = 1; i < rows.rows(); ++i) {
        shots["cuts"].push_back(100 * i);
        shots["times_us"].push_back(4000000 * i);
      }
    }
    video.set("shots.json", shots.dump());
    video.set("shots.classic.npy", to_npy(rows.values, rows.shape));
    ShotsMerge(options).process(video, out.emit(), testing::Run());
  }
  json shots() const { return json::parse(out.emitted.at(0).need("shots.json")); }
};

// Steps of 10 degrees: neighbours are alike, the ends are not.
TEST(ShotsMerge, ConsecutiveComparesNeighbours) {
  const Video video(at_degrees({0, 10, 20, 30, 80}), {.threshold = cosine_of(12)});
  const json shots = video.shots();
  EXPECT_EQ(shots["cuts"], json::array({400}));
  EXPECT_EQ(shots["times_us"], json::array({16000000}));
  ASSERT_EQ(shots["merged"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(shots["merged"][i]["cut"], 100 * (i + 1));
    EXPECT_NEAR(shots["merged"][i]["similarity"], cosine_of(10), 1e-6);
  }
  EXPECT_NEAR(shots["similarities"][0], cosine_of(50), 1e-6);
  EXPECT_EQ(shots["merge"],
            json({{"name", "classic"}, {"rule", "consecutive"}, {"threshold", cosine_of(12)}}));
  EXPECT_EQ(shots["scores"], json::array({0.5}));
}

TEST(ShotsMerge, ScoreKeepsEveryCutAndSaysWhichWouldGo) {
  const Video video(at_degrees({0, 10, 20, 30, 80}), {.mode = "score", .threshold = cosine_of(12)});
  const json shots = video.shots();
  EXPECT_EQ(shots["cuts"], json::array({100, 200, 300, 400}));
  EXPECT_EQ(shots["times_us"].size(), 4u);
  EXPECT_EQ(shots["merge"]["would_join"], json::array({100, 200, 300}));
  EXPECT_NEAR(shots["similarities"][3], cosine_of(50), 1e-6);
  EXPECT_FALSE(shots.contains("merged"));
  EXPECT_EQ(read_npy(*video.out.emitted.at(0).text("shots.classic.npy"), "rows").rows(), 5);
}

// The mean of 0 and 10 degrees is 5, and 20 is 15 away from it.
TEST(ShotsMerge, RunningComparesWithTheMeanOfTheRun) {
  const Video video(at_degrees({0, 10, 20, 30, 80}), {.rule = "running", .threshold = cosine_of(12)});
  const json shots = video.shots();
  EXPECT_EQ(shots["cuts"], json::array({200, 400}));
  EXPECT_NEAR(shots["similarities"][0], cosine_of(15), 1e-6);
  EXPECT_NEAR(shots["merged"][1]["similarity"], cosine_of(10), 1e-6);
}

TEST(ShotsMerge, RowsStayThoseOfTheShots) {
  const Video video(at_degrees({0, 10, 80}), {.threshold = cosine_of(12)});
  const FloatArray rows = read_npy(video.out.emitted[0].need("shots.classic.npy"), "rows");
  ASSERT_THAT(rows.shape, ElementsAre(2, 2));
  EXPECT_NEAR(rows.row(0)[0], cosine_of(5), 1e-6);
  EXPECT_NEAR(rows.row(1)[0], cosine_of(80), 1e-6);
}

TEST(ShotsMerge, AShotWithoutAPictureIsJoinedToNone) {
  for (const char* rule : {"consecutive", "running"}) {
    const Video video(at_degrees({0, std::nan(""), 0}), {.rule = rule, .threshold = -1});
    EXPECT_EQ(video.shots()["cuts"], json::array({100, 200})) << rule;
  }
}

TEST(ShotsMerge, AddsToWhatWasMergedBeforeAndNeedsNoTimes) {
  const Video video(at_degrees({0, 0}), {},
                    {{"fps", 25},
                     {"cuts", json::array({40})},
                     {"merged", json::array({{{"cut", 7}, {"similarity", 0.9}}})}});
  EXPECT_EQ(video.shots()["merged"].size(), 2u);
  EXPECT_EQ(video.shots()["merged"][1]["cut"], 40);
  EXPECT_FALSE(video.shots().contains("times_us"));
}

TEST(ShotsMerge, RefusesRowsThatAreNotOfTheShots) {
  const auto why = [](const FloatArray& rows, const json& shots) {
    try {
      const Video video(rows, {}, shots);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(why(at_degrees({0, 0}), {{"cuts", {1, 2}}}), HasSubstr("2 rows for 3 shots"));
  EXPECT_THAT(why(at_degrees({0, 0}), {{"cuts", 1}}), HasSubstr("put a stage shots.*"));
  EXPECT_THAT(why(at_degrees({0, 0}), {{"cuts", json::array({1})}, {"times_us", {1, 2}}}),
              HasSubstr("times_us"));
}

}  // namespace
}  // namespace kinora::embed
