// kind = "train" on windows of several sizes: each sample's loss is the one that it would have alone.
#include <gmock/gmock.h>

#include "core/torch/media/latents.hpp"
#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/training/live/encoded_windows.hpp"
#include "plugins/jobs/training/packed_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 8;

json trained(const ScratchRun& run) {
  JobContext context = run.context("dit");
  test::run_job(context);
  return context.summary;
}

// The loss of flow matching of one window in a batch of its own: |v - (n - x)|^2, a mean over its numbers.
double loss_alone(Network& network, const LatentItem& item, int64_t n) {
  const at::Tensor x = item.latent.to(at::kDouble).unsqueeze(0),
                   noise = sample_noise(x, kSeed, n, "train.noise"),
                   s = at::special_ndtri(sample_uniform({1}, kSeed, n, "train.sigma")).sigmoid();
  const double level = s.item<double>();
  const at::Tensor v = network
                           .forward({{"latent", (1 - level) * x + level * noise},
                                     {"timestep", 1000 * s},
                                     {"text", item.text.to(at::kDouble).unsqueeze(0)}})
                           .at(0);
  return (v - (noise - x)).square().mean().item<double>();
}

TEST(PackedTraining, GivesEachSampleTheLossThatItHasAlone) {
  const auto run = prepared_for_rows("batch = 8\n");
  const json measured = encoded(*run);
  EXPECT_EQ(measured.at("sizes").size(), 2u) << measured;  // no clip is taller than wide
  EXPECT_GT(measured.at("sizes").value("1x16x16", 0), 0);
  EXPECT_GT(measured.at("sizes").value("9x16x32", 0), 0);
  const json summary = trained(*run);
  EncodedWindows windows(JobView(test::runtime(), run->run(), run->spec("latents")), at::kCPU);
  const auto facts = LatentFacts::of_folder(run->of("latents"));
  const auto network = run->network("dit", "model", at::kDouble);
  double want = 0;
  std::set<std::vector<int64_t>> shapes;
  for (int64_t n = 0; n < kBatch; ++n) {
    auto window = windows.at(static_cast<uint64_t>(n), [](const std::string&) { return true; });
    const auto item = facts.item(window.key, std::move(window.tensors));
    shapes.insert(item.latent.sizes().vec());
    EXPECT_EQ(windows.positions(static_cast<uint64_t>(n), [](const std::string&) { return true; }),
              item.latent[0].numel());
    want += loss_alone(*network, item, n) / static_cast<double>(kBatch);
  }
  EXPECT_EQ(shapes.size(), 2u) << "videos and pictures";
  const auto lines = run->metrics("dit");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NEAR(lines[0].at("loss").get<double>() / want, 1, 1e-10);
  EXPECT_EQ(lines[0].at("packing"), 1) << "one row";
  EXPECT_EQ(summary.at("failed"), 1) << "b is not a video";
}

TEST(PackedTraining, IsTheSameInMicrobatches) {
  const auto lines = [](const std::string& more) {
    const auto run = prepared_for_rows("batch = 8\n" + more);
    encoded(*run);
    trained(*run);
    return run->metrics("dit");
  };
  const auto one = lines(""), four = lines("accumulate = 4\n");
  for (size_t i = 0; i < 2; ++i) {
    for (const char* name : {"loss", "gradient_norm"})
      EXPECT_NEAR(four[i].at(name).get<double>() / one[i].at(name).get<double>(), 1, 1e-10) << name << i;
    EXPECT_GT(four[i].at("packing").get<double>(), 0.5);
    EXPECT_LE(four[i].at("packing").get<double>(), 1);
  }
}

TEST(PackedTraining, RefusesWhatRowsCannotDo) {
  const auto said = [](const std::string& dit) {
    const auto run = prepared_for_rows("batch = 4\n" + dit);
    return test::refusal([&] {
      encoded(*run);
      trained(*run);
    });
  };
  for (const char* line : {"condition_frames = [1]\n", "levels = 'frame'\n", "sample_every = 1\n"}) {
    const std::string option(line, std::string(line).find(' '));
    EXPECT_THAT(said(line), HasSubstr("leave " + option + " out, or remove `sizes`"));
  }
}

}  // namespace
}  // namespace kinora::core
