// stage/embed.classic on samples: fields, facts, the assignment of frames to shots, and errors.
#include "embed_stage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/curation.hpp"
#include "kinora/npy.hpp"
#include "kinora/testing.hpp"

namespace kinora::embed {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kHeight = 12, kWidth = 20;

// A sample whose frames have one grey level each.
Sample sample_of(const std::vector<int>& greys, const json& facts = json::object()) {
  testing::start();
  Sample sample("clip");
  std::vector<uint8_t> pixels;
  for (const int grey : greys)
    pixels.insert(pixels.end(), size_t{kHeight} * kWidth * 3, static_cast<uint8_t>(grey));
  sample.set_tensor("frames", std::move(pixels), {static_cast<int64_t>(greys.size()), kHeight, kWidth, 3},
                    KINORA_DL_UINT, 8);
  sample.set("json", facts.dump());
  return sample;
}

Sample embedded(const Sample& in, const EmbedClassic::Options& options = {}) {
  testing::Collector out;
  EmbedClassic(options).process(in, out.emit(), testing::Run());
  return out.emitted.at(0);
}

std::vector<float> of(const std::vector<int>& greys) {
  Classic classic({});
  const size_t bytes = size_t{kHeight} * kWidth * 3;
  for (const int grey : greys)
    classic.add(std::vector<uint8_t>(bytes, static_cast<uint8_t>(grey)).data(), kHeight, kWidth);
  return classic.vector();
}

TEST(EmbedClassic, SetsTheFieldAndItsFact) {
  const Sample out = embedded(sample_of({10, 30, 200}, {{"film", "f"}}), {.name = "looks"});
  const FloatArray read = read_npy(out.need("looks.npy"), "looks.npy");
  EXPECT_THAT(read.shape, ElementsAre(kClassicSize));
  EXPECT_EQ(read.values, of({10, 30, 200}));
  const json facts = json::parse(out.need("json"));
  EXPECT_EQ(facts["embeddings"]["looks"], json({{"model", "embed.classic"}, {"size", kClassicSize}}));
  EXPECT_EQ(facts["film"], "f");
}

// A frame at the time of a cut belongs to the new shot; times_us takes precedence over fps.
TEST(EmbedClassic, GivesAFilmARowAShot) {
  for (const bool times : {true, false}) {
    Sample film = sample_of({0, 0, 90, 90, 250}, {{"frames_at", {0, 1, 2, 3, 4}}});
    json shots{{"fps", times ? 1000 : 25}, {"cuts", {50, 60, 100}}};
    if (times) shots["times_us"] = {2000000, 2400000, 4000000};
    film.set("shots.json", shots.dump());
    const FloatArray rows = read_npy(embedded(film).need("shots.classic.npy"), "rows");
    ASSERT_THAT(rows.shape, ElementsAre(4, kClassicSize));
    const auto row = [&](int64_t i) { return std::vector<float>(rows.row(i).begin(), rows.row(i).end()); };
    EXPECT_EQ(row(0), of({0, 0}));
    EXPECT_EQ(row(1), of({90}));
    EXPECT_EQ(row(2), of({90}));
    EXPECT_EQ(row(3), of({250}));
  }
}

TEST(EmbedClassic, AShotWithoutAFrameIsZero) {
  Sample film = sample_of({0, 90}, {{"frames_at", {0, 4}}});
  film.set("shots.json", json{{"fps", 25}, {"cuts", {50, 60}}}.dump());
  const FloatArray rows = read_npy(embedded(film).need("shots.classic.npy"), "rows");
  for (const float v : rows.row(1)) EXPECT_EQ(v, 0);
  EXPECT_EQ(std::vector<float>(rows.row(2).begin(), rows.row(2).end()), of({90}));
}

TEST(EmbedClassic, SaysWhatIsMissing) {
  const auto why = [](const Sample& sample) {
    try {
      embedded(sample);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  testing::start();
  EXPECT_THAT(why(Sample("bare")), HasSubstr("'bare' has no frames; set sample_fps"));
  Sample film = sample_of({0, 90});
  film.set("shots.json", json{{"fps", 25}, {"cuts", json::array({1})}}.dump());
  EXPECT_THAT(why(film), HasSubstr("sample_every"));
  film.set("json", json{{"frames_at", json::array({0})}}.dump());
  EXPECT_THAT(why(film), HasSubstr("2 frames and 1 times"));
  film.set("json", json{{"frames_at", {1, 0}}}.dump());
  EXPECT_THAT(why(film), HasSubstr("does not rise"));
  film.set("json", json{{"frames_at", {0, "x"}}}.dump());
  EXPECT_THAT(why(film), HasSubstr("not a number"));
  film.set("shots.json", json{{"cuts", json::array({1})}}.dump());
  EXPECT_THAT(why(film), HasSubstr("neither times_us nor fps"));
  film.set("shots.json", json{{"fps", 25}, {"cuts", json::array({1})}}.dump());
  film.set("json", "[]");
  EXPECT_THAT(why(film), HasSubstr("not a JSON object"));
}

TEST(EmbedClassic, RefusesOptionsThatCannotBe) {
  EXPECT_THROW(EmbedClassic({.colour = 0, .gradient = 0, .motion = 0}), Error);
  EXPECT_THROW(EmbedClassic({.name = "a.b"}), Error);
}

}  // namespace
}  // namespace kinora::embed
