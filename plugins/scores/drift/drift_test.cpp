// score/drift on videos whose drift has a closed form.
#include <cmath>
#include <map>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"
#include "tests/support/score.hpp"

namespace kinora::test {
namespace {

using at::Tensor;
using core::json;
using testing::HasSubstr;
constexpr int64_t kFps = 8;

std::map<std::string, double> drift(const core::NamedTensors& in, json options = json::object()) {
  options.emplace("fps", static_cast<double>(kFps));
  const auto score = test::score("drift", options);
  score->update(in);
  const auto numbers = score->compute();
  return {numbers.begin(), numbers.end()};
}

// [1, 3, T, H, W] in [-1, 1] of channels [T] or [T, H, W] in [0, 1].
Tensor video_of(const Tensor& red, const Tensor& green, const Tensor& blue) {
  const auto full = [](const Tensor& x) { return x.dim() == 1 ? x.view({-1, 1, 1}).expand({-1, 6, 7}) : x; };
  return at::stack({full(red), full(green), full(blue)}).unsqueeze(0) * 2 - 1;
}

Tensor frames(double value, int64_t count = 4 * kFps) { return at::full({count}, value, at::kDouble); }

TEST(Drift, OfAVideoThatStaysIsZero) {
  at::manual_seed(3);
  const Tensor picture = at::rand({6, 7}, at::kDouble);
  const auto still = [&](double by) { return (picture * by).expand({33, 6, 7}); };
  for (const Tensor& video :
       {video_of(frames(0.3), frames(0.7), frames(0.1)), video_of(still(1), still(0.5), still(0.2))})
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat})
      for (const json& options : {json{{"chunk", 4}}, json{{"fps", 7.3}, {"reference", 2}}})
        for (const auto& [name, number] : drift({{"video", video.to(dtype)}}, options))
          EXPECT_NEAR(number, 0, 1e-14) << name << options;
}

// Red rises by a step a frame and blue falls by it, from grey: saturation is 2 * step * frame.
TEST(Drift, OfAVideoThatGetsMoreSaturatedHasItsSlope) {
  const double step = 0.01;
  const Tensor along = at::arange(4 * kFps, at::kDouble) * step;
  const auto made = drift({{"video", video_of(0.5 + along, frames(0.5), 0.5 - along)}});
  EXPECT_NEAR(made.at("saturation_slope"), 2 * step * kFps, 1e-12);
  // A second is kFps steps behind the one before; two of three channels move.
  EXPECT_NEAR(made.at("mean"), 2. / 3 * step * kFps * (1 + 2 + 3) / 3, 1e-12);
  EXPECT_NEAR(made.at("mean_end"), 2. / 3 * step * kFps * 3, 1e-12);
  EXPECT_NEAR(made.at("spread"), 0, 1e-12) << "each second spreads as the first";
  EXPECT_NEAR(made.at("sharpness"), 0, 1e-12);
  const auto back = drift({{"video", video_of(0.5 + along.flip(0), frames(0.5), 0.5 - along.flip(0))}});
  EXPECT_NEAR(back.at("saturation_slope"), -2 * step * kFps, 1e-12);
}

// A checkerboard of amplitude a around grey has spread a and a Laplacian of 8 a everywhere.
TEST(Drift, OfAPatternThatFadesHasItsSpreadAndSharpness) {
  const Tensor sign = 1 - 2 * ((at::arange(6).view({6, 1}) + at::arange(7)) % 2).to(at::kDouble);
  const Tensor amplitude =
      at::tensor({0.4, 0.3, 0.2, 0.1}, at::kDouble).repeat_interleave(kFps).view({-1, 1, 1});
  const Tensor grey = 0.5 + amplitude * sign.narrow(0, 0, 6).narrow(1, 0, 6);
  const auto made = drift({{"video", video_of(grey, grey, grey)}});
  EXPECT_NEAR(made.at("spread"), 0.2, 1e-12);
  EXPECT_NEAR(made.at("spread_end"), 0.3, 1e-12);
  EXPECT_NEAR(made.at("sharpness"), -8 * 0.2, 1e-12);
  EXPECT_NEAR(made.at("sharpness_end"), -8 * 0.3, 1e-12);
  EXPECT_NEAR(made.at("mean"), 0, 1e-12);
  EXPECT_NEAR(made.at("saturation_slope"), 0, 1e-12);
}

// One colour in the first two seconds; from then on half of the picture has another.
TEST(Drift, HistogramIsTheShareOfPixelsWithAnotherColour) {
  Tensor red = at::full({4 * kFps, 4, 4}, 0.2, at::kDouble), grey = at::full_like(red, 0.2);
  red.narrow(0, 2 * kFps, 2 * kFps).narrow(1, 0, 2).fill_(0.9);
  const auto made = drift({{"video", video_of(red, grey, grey)}});
  EXPECT_NEAR(made.at("histogram"), 0.5 * 2 / 3, 1e-12);
  EXPECT_NEAR(made.at("histogram_end"), 0.5, 1e-12);
  EXPECT_NEAR(drift({{"video", video_of(red, grey, grey)}}, {{"reference", 2}}).at("histogram"), 0.5, 1e-12);
}

// A ramp with a step at each border: the change there minus that of the ramp.
TEST(Drift, FindsTheJumpAtBordersOfChunks) {
  const double ramp = 0.002, jump = 0.05;
  const auto brightness = [&](int64_t first, int64_t chunk) {
    std::vector<double> out;
    for (int64_t t = 0; t < 4 * kFps; ++t) {
      const int64_t borders = t < first ? 0 : 1 + (t - first) / chunk;
      out.push_back(0.1 + ramp * static_cast<double>(t) + jump * static_cast<double>(borders));
    }
    return at::tensor(out, at::kDouble);
  };
  const auto found = [&](const Tensor& x, const json& options) {
    return drift({{"video", video_of(x, x, x)}}, options).at("border_jump");
  };
  EXPECT_NEAR(found(brightness(8, 8), {{"chunk", 8}}), jump, 1e-12);
  EXPECT_NEAR(found(brightness(5, 8), {{"chunk", 8}, {"first_chunk", 5}}), jump, 1e-12);
  EXPECT_LT(found(brightness(5, 8), {{"chunk", 8}}), 0) << "the jumps are elsewhere";
  EXPECT_EQ(found(brightness(8, 8), json::object()), 0) << "no borders are given";
}

// The state is the table: a second of grey, one that is brighter by 0.1, and one of a checkerboard.
TEST(Drift, StateIsATableOfSeconds) {
  const Tensor sign = 1 - 2 * ((at::arange(6).view({6, 1}) + at::arange(6)) % 2).to(at::kDouble);
  const auto second = [](const Tensor& picture) { return picture.expand({kFps, 6, 6}); };
  const Tensor grey = at::full({6, 6}, 0.3, at::kDouble),
               all = at::cat({second(grey), second(grey + 0.1), second(0.3 + 0.2 * sign)});
  const auto score =
      test::score("drift", {{"fps", static_cast<double>(kFps)}, {"chunk", 4}, {"first_chunk", 8}});
  score->update({{"video", video_of(all, all, all)}});
  const Tensor state = score->state();
  ASSERT_EQ(state.numel(), 2 + 3 * 6);
  EXPECT_EQ(state[0].item<double>(), 3);
  // Borders are frames 8, 12, 16 and 20; pixels change by 0.1 at 8, and by 0.1 and 0.3 at 16.
  EXPECT_NEAR(state[1].item<double>(), (0.1 + 0.2) / 4, 1e-12);
  // mean, spread, histogram (bins of an eighth: 0.1 and 0.5 are in others than 0.3 and 0.4), sharpness,
  // saturation, border_jump (in the second itself)
  const double want[3][6] = {
      {0, 0, 0, 0, 0, 0}, {0.1, 0, 1, 0, 0, 0.1 / 2}, {0, 0.2, 1, 8 * 0.2, 0, 0.2 / 2}};
  for (int64_t k = 0; k < 3; ++k)
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_NEAR(state[2 + 6 * k + i].item<double>(), want[k][i], 1e-12) << k << " " << i;
}

TEST(Drift, TakesBytesAndARateForEachVideo) {
  at::manual_seed(4);
  const Tensor bytes = at::randint(256, {1, 3, 4 * kFps, 6, 7}, at::kByte);
  const auto of_bytes = drift({{"video", bytes}});
  for (const auto& [name, number] : drift({{"video", bytes.to(at::kDouble) / 255 * 2 - 1}}))
    EXPECT_NEAR(of_bytes.at(name), number, 1e-12) << name;
  const Tensor rate = at::full({1}, static_cast<double>(kFps), at::kDouble);
  EXPECT_EQ(drift({{"video", bytes}, {"fps", rate}}, {{"fps", 3.0}}), of_bytes);
  EXPECT_NE(drift({{"video", bytes}}, {{"fps", 3.0}}), of_bytes);
}

// 24.004 frames per second, measured from milliseconds, still are two seconds of 48 frames.
TEST(Drift, ARateFromRoundedTimesLosesNoSecond) {
  Tensor grey = frames(0.2, 48);
  grey.narrow(0, 24, 24).fill_(0.5);
  const auto made = drift({{"video", video_of(grey, grey, grey)}}, {{"fps", 24.004}});
  EXPECT_NEAR(made.at("mean_end"), 0.3, 1e-12);
  EXPECT_NEAR(made.at("spread_end"), 0, 1e-12);
}

TEST(Drift, OfStatesOfSeveralRanksIsThatOfOne) {
  at::manual_seed(5);
  const Tensor videos = at::rand({3, 3, 3 * kFps, 4, 4}) * 2 - 1;
  const json options = {{"fps", static_cast<double>(kFps)}};
  const auto whole = test::score("drift", options), merged = test::score("drift", options);
  whole->update({{"video", videos}});
  for (int64_t i = 0; i < 3; ++i) {
    const auto rank = test::score("drift", options);
    rank->update({{"video", videos.narrow(0, i, 1)}});
    merged->merge(rank->state());
  }
  EXPECT_EQ(whole->state().numel(), 3 * (2 + 3 * 6)) << "two numbers of each video, and six of each second";
  EXPECT_EQ(merged->compute(), whole->compute());
}

TEST(Drift, RefusesWhatDoesNotFit) {
  const Tensor video = at::zeros({1, 3, 4 * kFps, 4, 4});
  const auto said = [](const core::NamedTensors& in) { return refusal([&] { drift(in); }); };
  EXPECT_THAT(said({{"video", video.narrow(1, 0, 1)}}), HasSubstr("video must be [B, 3, T, H, W]"));
  EXPECT_THAT(said({{"video", video}, {"fps", at::ones({2})}}),
              HasSubstr("fps must be [1], one for each video"));
  EXPECT_THAT(said({{"video", video}, {"fps", at::zeros({1})}}),
              HasSubstr("fps of video 0 is 0, expected 1 to 1000"));
  EXPECT_THAT(said({{"video", at::full_like(video, std::nan(""))}}), HasSubstr("frame 0 has pixels"));
  EXPECT_THAT(said({{"video", video.narrow(2, 0, 2 * kFps - 1)}}), HasSubstr("no video has a whole second"));
  EXPECT_THAT(refusal([] { test::score("drift")->merge(at::zeros({7}, at::kDouble)); }),
              HasSubstr("a state of 7 numbers is not of whole videos"));
  EXPECT_THAT(refusal([] { test::score("drift")->merge(at::full({13}, 2.0, at::kDouble)); }),
              HasSubstr("a state of 13 numbers is not of whole videos"));
}

}  // namespace
}  // namespace kinora::test
