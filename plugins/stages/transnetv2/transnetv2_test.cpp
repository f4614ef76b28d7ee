// TransNet V2 against the published PyTorch implementation with the real weights
// (tests/oracle/make_transnetv2_fixtures.py), and the division of a video into windows.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/host.hpp"
#include "core/run/one_stage.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "plugins/stages/transnetv2/network.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/worst.hpp"

namespace kinora::transnetv2 {
namespace {

using at::Tensor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<float> values(const Tensor& t) {
  const Tensor flat = t.to(at::kFloat).contiguous().view(-1);
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

double largest_gap(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = test::worse(worst, static_cast<double>(std::abs(a[i] - b[i])));
  return worst;
}

std::filesystem::path published_weights() {
  const char* assets = std::getenv("KINORA_ASSETS");
  return std::filesystem::path(assets ? assets : "") / "transnetv2" / "transnetv2.safetensors";
}

TEST(TransNetV2, EqualsThePublishedNetworkOnAWholeFilm) {
  const auto path = published_weights();
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is missing; run packaging/dev.sh setup to create it";
  const c10::InferenceMode inference;
  const test::Oracle oracle("transnetv2.safetensors", "");
  const Network network(core::read_tensors(path), path.string());
  const Tensor film = oracle.exact("thumbnails").to(at::kByte).contiguous();
  for (const char* part : {"whole", "first_50", "one"}) {
    const Tensor change = oracle.exact(std::string(part) + "_change"),
                 all = oracle.exact(std::string(part) + "_part");
    const auto found = predict(std::cref(network), film.narrow(0, 0, change.size(0)), 2, [] {});
    EXPECT_LT(largest_gap(found.change, values(change)), 1e-4) << part;
    EXPECT_LT(largest_gap(found.part, values(all)), 1e-4) << part;
  }
  EXPECT_GT(oracle.exact("whole_change").max().item<double>(), 0.9) << "the fixture has no cut";
}

// The built plugins as in a run; libtorch is already in this process.
core::Runtime& runtime() {
  static const auto started = [] {
    core::set_torch_loader([] { return core::Status(); });
    core::serve_tensors();
    return core::or_throw(core::Runtime::start({}));
  }();
  return *started;
}

// A video of known pieces through both stages as in a run: the first frame of every shot is found.
TEST(TransNetV2, FindsTheCutsOfAFilmThatWasPutTogether) {
  if (!std::filesystem::exists(published_weights()))
    GTEST_SKIP() << "no weights; run packaging/dev.sh setup to create them";
  const auto data = std::filesystem::path(KINORA_TEST_DATA);
  core::Runtime& started = runtime();  // before the first sample
  Sample film("film");
  film.set("url", (data / "film.mp4").string());
  const Sample seen = core::OneStage(started, "shots.fixed", {{"thumbnails", true}, {"threads", 2}})(film);
  const Sample out =
      core::OneStage(runtime(), "shots.transnetv2", {{"weights", published_weights().string()}})(seen);
  const auto truth = core::json::parse(std::ifstream(data / "film.json"));
  const auto shots = core::json::parse(out.need("shots.json"));
  EXPECT_EQ(shots.at("cuts"), truth.at("cuts"));
  for (size_t i = 0; i < shots.at("cuts").size(); ++i)
    EXPECT_NEAR(shots.at("times_us")[i].get<double>(),
                shots.at("cuts")[i].get<double>() / truth.at("fps").get<double>() * 1e6, 1);
  EXPECT_EQ(shots.at("detectors").at("fixed").at("cuts").size(), 3u) << "existing detectors are kept";
  EXPECT_EQ(out.tensor("thumbnails"), nullptr);
}

TEST(TransNetV2, SaysWhatMustStandBefore) {
  if (!std::filesystem::exists(published_weights()))
    GTEST_SKIP() << "no weights; run packaging/dev.sh setup to create them";
  core::Runtime& started = runtime();
  Sample film("film");
  film.set("shots.json", "{}");
  try {
    core::OneStage(started, "shots.transnetv2", {{"weights", published_weights().string()}})(film);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                ::testing::HasSubstr("no tensor 'thumbnails'; set thumbnails = true on a stage shots"));
  }
}

// A network that answers each frame with its first byte, and expects only frames of the video and copies of
// its first and last frame.
TEST(Windows, EveryFrameIsAnsweredOnceInItsOrder) {
  for (const int64_t frames : {1, 2, 49, 50, 51, 99, 100, 101, 149, 150, 230}) {
    Tensor film = at::zeros({frames, 27, 48, 3}, at::kByte);
    for (int64_t i = 0; i < frames; ++i) film[i].fill_(i + 10);
    const auto echo = [&](const Tensor& windows) -> Network::Predictions {
      EXPECT_EQ(windows.size(1), 100);
      const Tensor first = windows.select(4, 0).select(3, 0).select(2, 0).to(at::kFloat);
      for (int64_t w = 0; w < windows.size(0); ++w)
        for (int64_t i = 1; i < 100; ++i) {
          const double step = (first[w][i] - first[w][i - 1]).item<double>();
          EXPECT_TRUE(step == 0 || step == 1) << frames;
        }
      return {first, first + 0.5};
    };
    for (const int64_t batch : {1, 3}) {
      int64_t batches = 0;
      const auto found = predict(echo, film, batch, [&] { ++batches; });
      ASSERT_EQ(found.change.size(), static_cast<size_t>(frames));
      ASSERT_EQ(found.part.size(), static_cast<size_t>(frames));
      for (int64_t i = 0; i < frames; ++i)
        EXPECT_EQ(found.change[static_cast<size_t>(i)], static_cast<float>(i + 10)) << frames;
      EXPECT_EQ(batches, ((frames + 49) / 50 + batch - 1) / batch);
    }
  }
}

TEST(Cuts, AreTheFirstFramesAfterARunAboveTheThreshold) {
  EXPECT_THAT(cuts_of({0, 0, 0.9F, 0, 0}, 0.5), ElementsAre(3));
  EXPECT_THAT(cuts_of({0, 0.6F, 0.9F, 0.7F, 0, 0.8F, 0.1F}, 0.5), ElementsAre(4, 6));
  EXPECT_THAT(cuts_of({0.9F, 0, 0}, 0.5), ElementsAre(1));
  EXPECT_THAT(cuts_of({0, 0, 0.9F}, 0.5), IsEmpty()) << "no frame follows the last one";
  EXPECT_THAT(cuts_of({0.9F, 0.9F}, 0.5), IsEmpty());
  EXPECT_THAT(cuts_of({0, 0.5F, 0}, 0.5), IsEmpty()) << "not above";
  EXPECT_THAT(cuts_of({}, 0.5), IsEmpty());
}

TEST(Likeness, IsThatOfTheFramesAround) {
  const Tensor x = at::randn({2, 70, 5});
  const Tensor found = likeness_around(x);
  ASSERT_EQ(found.sizes(), (at::IntArrayRef{2, 70, 101}));
  for (const int64_t t : {0, 3, 50, 69})
    for (const int64_t k : {0, 17, 50, 51, 100}) {
      const int64_t other = t + k - 50;
      const double expected = other < 0 || other >= 70 ? 0.0 : x[1][t].dot(x[1][other]).item<double>();
      EXPECT_NEAR(found[1][t][k].item<double>(), expected, 1e-5) << t << " " << k;
    }
}

TEST(ColourHistograms, CountEightLevelsAChannel) {
  Tensor frames = at::zeros({1, 2, 27, 48, 3}, at::kByte);
  frames[0][1].select(-1, 0).fill_(255);
  frames[0][1][0].fill_(33);  // one row of 48 pixels in level 1
  const Tensor found = colour_histograms(frames);
  EXPECT_EQ(found[0][0][0].item<double>(), 1.0);
  const double rest = 26 * 48, row = 48, length = std::sqrt(rest * rest + row * row);
  EXPECT_NEAR(found[0][1][7 << 6].item<double>(), rest / length, 1e-6);
  EXPECT_NEAR(found[0][1][1 << 6 | 1 << 3 | 1].item<double>(), row / length, 1e-6);
}

TEST(Weights, AWrongFileIsNamed) {
  Weights weights;
  for (const auto& [name, shape] : expected_weights()) weights[name] = at::zeros(shape);
  EXPECT_NO_THROW(Network(weights, "w"));
  auto turned = weights;
  turned["fc1.weight"] = turned["fc1.weight"].t();
  auto lacking = weights;
  lacking.erase("cls_layer2.bias");
  const auto error_of = [](const Weights& w) {
    try {
      Network made(w, "some.safetensors");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(
      error_of(turned),
      ::testing::HasSubstr("some.safetensors: 'fc1.weight' has shape [4864, 1024], expected [1024, 4864]"));
  EXPECT_THAT(error_of(lacking), ::testing::HasSubstr("no float32 tensor 'cls_layer2.bias'"));
}

}  // namespace
}  // namespace kinora::transnetv2
