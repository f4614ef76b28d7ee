// The descriptor against numpy (tests/oracle/make_classic_fixtures.py), and the properties of its cosine.
#include "classic.hpp"

#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/weights/safetensors.hpp"
#include "kinora/curation.hpp"
#include "kinora/npy.hpp"
#include "kinora/testing.hpp"

namespace kinora::embed {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Picture = std::vector<uint8_t>;

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Picture filled(int side, int r, int g, int b) {
  Picture out;
  for (int i = 0; i < side * side; ++i)
    for (const int v : {r, g, b}) out.push_back(static_cast<uint8_t>(v));
  return out;
}

std::vector<float> embedding(const std::vector<Picture>& pictures, int side, const Shares& shares = {}) {
  Classic classic(shares);
  for (const auto& p : pictures) classic.add(p.data(), side, static_cast<int64_t>(p.size()) / 3 / side);
  return classic.vector();
}

TEST(ClassicOracle, EqualsNumpy) {
  const auto file =
      core::or_throw(core::Safetensors::open(std::string(KINORA_TEST_DATA) + "/oracle/classic.safetensors"));
  std::map<std::string, core::SafeTensor> all;
  for (const auto& t : file.tensors()) all[t.name] = t;
  for (const std::string name : {"large", "small", "one"}) {
    const auto &frames = all.at(name + ".frames"), &want = all.at(name + ".embedding");
    Classic classic({});
    for (int64_t t = 0; t < frames.shape[0]; ++t)
      classic.add(
          reinterpret_cast<const uint8_t*>(frames.bytes.data()) + t * frames.shape[1] * frames.shape[2] * 3,
          frames.shape[1], frames.shape[2]);
    const auto got = classic.vector();
    ASSERT_EQ(want.bytes.size(), got.size() * 4);
    const auto* numbers = reinterpret_cast<const float*>(want.bytes.data());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], numbers[i], 1e-6) << name << " " << i;
  }
}

TEST(Classic, HasLengthOneAndRepeatsItsBits) {
  const std::vector<Picture> video{filled(20, 9, 80, 200), filled(20, 30, 80, 10)};
  const auto a = embedding(video, 20);
  EXPECT_NEAR(cosine(a, a), 1, 1e-6);
  EXPECT_EQ(a, embedding(video, 20));
  EXPECT_EQ(a.size(), static_cast<size_t>(kClassicSize));
}

// Plain frames with colours at bin centres share all but the colour: the cosine is the sum of the other
// shares.
TEST(Classic, ItsCosineIsTheShareInCommon) {
  const auto red = embedding({filled(64, 255, 0, 0)}, 64), blue = embedding({filled(64, 0, 0, 255)}, 64),
             half = embedding(
                 {filled(64, 255, 0, 0), filled(64, 255, 0, 0), filled(64, 0, 0, 255), filled(64, 0, 0, 255)},
                 64, {1, 0, 0});
  EXPECT_NEAR(cosine(red, blue), 0.6, 1e-6);
  EXPECT_NEAR(cosine(half, embedding({filled(64, 255, 0, 0)}, 64, {1, 0, 0})), std::sqrt(0.5),
              1e-6);  // BC of (1/2, 1/2), (1, 0)
}

TEST(Classic, SharesAreProportions) {
  const std::vector<Picture> video{filled(64, 9, 80, 200), filled(64, 30, 80, 10)};
  EXPECT_EQ(embedding(video, 64, {2, 2, 1}), embedding(video, 64));
  const auto still = embedding(video, 64, {1, 1, 0});
  for (int i = kClassicSize - kMotionBins; i < kClassicSize; ++i) EXPECT_EQ(still[static_cast<size_t>(i)], 0);
}

// Vertical stripes have horizontal gradients, orientation 0; a single frame has no motion.
TEST(Classic, PutsAnEdgeIntoItsOrientation) {
  Picture stripes;
  for (int y = 0; y < 64; ++y)
    for (int x = 0; x < 64; ++x)
      for (int c = 0; c < 3; ++c) stripes.push_back(x / 4 % 2 ? 255 : 0);
  const auto v = embedding({stripes}, 64, {0, 1, 0});
  for (int cell = 0; cell < kCells * kCells; ++cell)
    for (int o = 0; o < kOrientations; ++o) {
      const float bin = v[static_cast<size_t>(kColourBins + cell * (kOrientations + 1) + o)];
      if (o == 0)
        EXPECT_GT(bin, 0.2) << cell;
      else
        EXPECT_EQ(bin, 0) << cell << " " << o;
    }
}

TEST(Classic, CountsAChangeOnALogarithmicScale) {
  const auto v = embedding({filled(64, 100, 100, 100), filled(64, 115, 115, 115)}, 64, {0, 0, 1});
  for (int cell = 0; cell < kCells * kCells; ++cell)
    for (int bin = 0; bin < kChanges; ++bin)  // log2(1 + 15) = 4
      EXPECT_NEAR(v[static_cast<size_t>(kColourBins + kGradientBins + cell * kChanges + bin)],
                  bin == 4 ? 0.25 : 0, 1e-6);
}

TEST(Classic, SeesThePictureNotItsSize) {
  const auto scene = [](int height, int width) {
    Picture out;
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        for (int c = 0; c < 3; ++c)
          out.push_back(
              static_cast<uint8_t>(120 + 100 * std::sin(6.0 * x / width + 4.0 * (c + 1) * y / height)));
    return out;
  };
  const auto large = embedding({scene(360, 640)}, 360), small = embedding({scene(90, 160)}, 90);
  EXPECT_GT(cosine(large, small), 0.998);
}

TEST(Classic, OfNothingIsZero) { EXPECT_EQ(Classic({}).vector(), std::vector<float>(kClassicSize)); }

// stage/embed.classic on samples: fields, facts, the assignment of frames to shots, and errors.

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
  EXPECT_EQ(facts["embeddings"]["looks"],
            json({{"model", "embed.classic"}, {"size", kClassicSize}, {"eps", 0.002}}));
  EXPECT_EQ(facts["film"], "f");
}

// A frame at the time of a cut belongs to the new shot; times_us takes precedence over fps.
TEST(EmbedClassic, GivesAVideoARowAShot) {
  for (const bool times : {true, false}) {
    Sample video = sample_of({0, 0, 90, 90, 250}, {{"frames_at", {0, 1, 2, 3, 4}}});
    json shots{{"fps", times ? 1000 : 25}, {"cuts", {50, 60, 100}}};
    if (times) shots["times_us"] = {2000000, 2400000, 4000000};
    video.set("shots.json", shots.dump());
    const FloatArray rows = read_npy(embedded(video).need("shots.classic.npy"), "rows");
    ASSERT_THAT(rows.shape, ElementsAre(4, kClassicSize));
    const auto row = [&](int64_t i) { return std::vector<float>(rows.row(i).begin(), rows.row(i).end()); };
    EXPECT_EQ(row(0), of({0, 0}));
    EXPECT_EQ(row(1), of({90}));
    EXPECT_EQ(row(2), of({90}));
    EXPECT_EQ(row(3), of({250}));
  }
}

TEST(EmbedClassic, AShotWithoutAFrameIsZero) {
  Sample video = sample_of({0, 90}, {{"frames_at", {0, 4}}});
  video.set("shots.json", json{{"fps", 25}, {"cuts", {50, 60}}}.dump());
  const FloatArray rows = read_npy(embedded(video).need("shots.classic.npy"), "rows");
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
  Sample video = sample_of({0, 90});
  video.set("shots.json", json{{"fps", 25}, {"cuts", json::array({1})}}.dump());
  EXPECT_THAT(why(video), HasSubstr("sample_every"));
  video.set("json", json{{"frames_at", json::array({0})}}.dump());
  EXPECT_THAT(why(video), HasSubstr("2 frames and 1 times"));
  video.set("json", json{{"frames_at", {1, 0}}}.dump());
  EXPECT_THAT(why(video), HasSubstr("does not rise"));
  video.set("json", json{{"frames_at", {0, "x"}}}.dump());
  EXPECT_THAT(why(video), HasSubstr("not a number"));
  video.set("shots.json", json{{"cuts", json::array({1})}}.dump());
  EXPECT_THAT(why(video), HasSubstr("neither times_us nor fps"));
  video.set("shots.json", json{{"fps", 25}, {"cuts", json::array({1})}}.dump());
  video.set("json", "[]");
  EXPECT_THAT(why(video), HasSubstr("not a JSON object"));
}

TEST(EmbedClassic, RefusesOptionsThatCannotBe) {
  EXPECT_THROW(EmbedClassic({.colour = 0, .gradient = 0, .motion = 0}), Error);
  EXPECT_THROW(EmbedClassic({.name = "a.b"}), Error);
}

}  // namespace
}  // namespace kinora::embed
