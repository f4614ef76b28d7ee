// stage/clip.signature: the cells of a frame, and frames at four a second whatever the times of those sampled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/testing.hpp"
#include "signature_stage.hpp"

namespace kinora::embed {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int kTall = 16, kWide = 32;

// Frames whose left half has one grey level each, and whose right half is black.
Sample halves(const std::vector<int>& greys, const json& facts) {
  testing::start();
  std::vector<uint8_t> pixels;
  for (const int grey : greys)
    for (int i = 0; i < kTall * kWide; ++i)
      pixels.insert(pixels.end(), 3, static_cast<uint8_t>(i % kWide < kWide / 2 ? grey : 0));
  Sample out("clip");
  out.set_tensor("frames", std::move(pixels), {static_cast<int64_t>(greys.size()), kTall, kWide, 3},
                 KINORA_DL_UINT, 8);
  out.set("json", facts.dump());
  return out;
}

std::string signed_by(const Sample& in) {
  testing::Collector out;
  ClipSignature({}).process(in, out.emit(), testing::Run());
  return std::string(out.emitted.at(0).need("signature"));
}

// Levels of the left halves; the others must be 0.
std::vector<int> levels(const std::string& signature) {
  EXPECT_EQ(signature.size() % 64, 0u);
  std::vector<int> out;
  for (size_t i = 0; i < signature.size(); ++i) {
    const int level = static_cast<uint8_t>(signature[i]), left = i % 8 < 4;
    if (i % 64 == 0) out.push_back(level);
    EXPECT_EQ(level, left ? out.back() : 0) << i;
  }
  return out;
}

TEST(ClipSignature, HasTheCellsOfFourFramesASecond) {
  const auto of = [](const std::vector<int>& greys, const std::vector<double>& times) {
    return levels(signed_by(halves(greys, {{"frames_at", times}})));
  };
  EXPECT_EQ(of({10, 20, 30}, {0, 0.25, 0.5}), (std::vector{10, 20, 30}));
  EXPECT_EQ(of({10, 20, 30, 40, 50}, {1, 1.125, 1.25, 1.375, 1.5}), (std::vector{10, 30, 50}))
      << "eight a second";
  EXPECT_EQ(of({10, 30}, {0, 0.5}), (std::vector{10, 20, 30}))
      << "two a second: the one between is interpolated";
  EXPECT_EQ(of({10, 30}, {0, 0.499999}), (std::vector{10, 20, 30})) << "a time in microseconds";
  EXPECT_EQ(of({10, 30}, {0, 0.4}), (std::vector{10, 23})) << "10 + 20 * 0.25 / 0.4, rounded";
  EXPECT_EQ(of({90}, {7}), std::vector{90});
  EXPECT_EQ(of({10, 30}, {0, 0}), std::vector{10}) << "two frames at one time";
}

TEST(ClipSignature, IsOfTheFirst30Seconds) {
  EXPECT_EQ(levels(signed_by(halves({0, 200}, {{"frames_at", {0, 100}}}))).size(), 120u);
}

TEST(ClipSignature, SaysWhatIsMissing) {
  const auto why = [](const Sample& in) {
    try {
      signed_by(in);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  testing::start();
  EXPECT_THAT(why(Sample("bare")), HasSubstr("set sample_fps"));
  EXPECT_THAT(why(halves({1, 2}, json::object())), HasSubstr("frames_at must be a list"));
  EXPECT_THAT(why(halves({1, 2}, {{"frames_at", json::array({1})}})), HasSubstr("2 frames and 1 times"));
  EXPECT_THAT(why(halves({1, 2}, {{"frames_at", {1, 0}}})), HasSubstr("does not rise"));
}

}  // namespace
}  // namespace kinora::embed
