// Train jobs with teacher forcing: what they draw, what they can be combined with, and their sample pictures.
#include "core/base/digest.hpp"
#include "plugins/jobs/training/train_job_testing.hpp"

namespace kinora::core {
namespace {

using namespace by_hand;
using at::Tensor;

// A chunk is two latent frames.
const std::string kForced =
    "teacher_forcing = true\n"
    "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 2, "
    "head_size = 12, adaln_lora = 4 }\nloss = { use = 'flow' }\n";

std::unique_ptr<Model> causal_network(const ScratchRun& run) {
  auto network = run.model("dit", "model", at::kDouble);
  network->chain().set_frames({.chunk = 1, .causal = true});
  return network;
}

// The velocity that the model predicts for frames [0, n) when all but the last are clean.
Tensor velocity(Model& network, const Tensor& x, double s, const Tensor& text) {
  Tensor told = at::zeros({1, x.size(2)}, at::kDouble);
  told.narrow(1, x.size(2) - 1, 1).fill_(1000 * s);
  return network.forward({{"latent", x}, {"timestep", told}, {"text", text.to(at::kDouble).unsqueeze(0)}})
      .at(0);
}

std::vector<double> of_steps(const ScratchRun& run, const char* key) {
  std::vector<double> out;
  for (const auto& line : run.metrics("dit")) out.push_back(line.at(key).get<double>());
  return out;
}

// Chunks' noise levels depend on the sample's number, the noise on the latent's, and the loss is the mean
// over the noisy half of all samples.
TEST(TeacherForcingJob, LearnsEachChunkFromTheCleanOnesBefore) {
  Knobs k;
  k.dropout = 0;
  const auto run = training(k, kForced + "precision = 'fp64'\n");
  const auto network = causal_network(*run);
  double want = 0;
  for (int64_t n = 0; n < k.batch; ++n) {
    const Sample one = samples()[static_cast<size_t>(shuffled(n, 3, kSeed))];
    const Tensor x0 = normalised(one), noise = sample_noise(x0, kSeed, n, "train.noise"),
                 levels = at::special_ndtri(sample_uniform({1, 2}, kSeed, n, "train.sigma")).sigmoid();
    for (int64_t i = 0; i < 2; ++i) {
      const double s = levels[0][i].item<double>();
      const auto own = [&](const Tensor& t) { return t.narrow(2, i, 1); };
      const Tensor x = at::cat({x0.narrow(2, 0, i), (1 - s) * own(x0) + s * own(noise)}, 2);
      const Tensor error = own(velocity(*network, x, s, one.text)) - own(noise - x0);
      want += error.square().sum().item<double>() / static_cast<double>(x0.numel() * k.batch);
    }
  }
  trained(*run);
  EXPECT_NEAR(of_steps(*run, "loss")[0] / want, 1, 1e-10);
}

TEST(TeacherForcingJob, IsTheSameInMicrobatchesWithAnAdapterAndAverages) {
  Knobs k;
  const std::string lines =
      kForced + kLora + "precision = 'fp64'\nwindow = 2\nvalidation_every = 4\nvalidation_samples = 3\n";
  const auto one = training(k, lines), split = training(k, lines + "accumulate = 2\n");
  const json a = trained(*one), b = trained(*split);
  for (const char* key : {"loss", "gradient_norm"})
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(of_steps(*one, key)[i] / of_steps(*split, key)[i], 1, 1e-12) << key << i;
  EXPECT_NEAR(a.at("validation_loss").get<double>() / b.at("validation_loss").get<double>(), 1, 1e-12);
  EXPECT_LT(worst(read_tensors(one->of("dit") / "weights.safetensors"),
                  read_tensors(split->of("dit") / "weights.safetensors")),
            1e-12);
}

TEST(TeacherForcingJob, RunsInEveryPrecision) {
  const auto losses = [](const std::string& precision) {
    const auto run = training(Knobs(), kForced + "precision = '" + precision + "'\n");
    trained(*run);
    return of_steps(*run, "loss");
  };
  const auto exact = losses("fp64");
  for (const auto& [precision, bound] : {std::pair{"fp32", 1e-5}, {"bf16", 0.05}})
    EXPECT_NEAR(losses(precision)[0] / exact[0], 1, bound) << precision;
}

// Euler's steps for one frame after the other; the training continues as if no sample had been drawn.
TEST(TeacherForcingJob, DrawsSamplesChunkAfterChunk) {
  Knobs k;
  const std::string lines = kForced + "precision = 'fp64'\n";
  const auto run = training(k, lines +
                                   "sample_every = 2\nsamples = 2\n"
                                   "sampler = { use = 'flow-euler', steps = 4, convention = 'uniform' }\n"),
             unseen = training(k, lines);
  ScratchRun::save(*run->tokenizer("tokenizer"), run->of("tokenizer") / "weights.safetensors");
  trained(*run);
  trained(*unseen);
  EXPECT_EQ(of_steps(*run, "loss"), of_steps(*unseen, "loss"));
  const auto got = read_tensors(run->of("dit") / "samples/step-000004.safetensors").at("latent");
  const auto network = causal_network(*run);
  load_values(network->chain().parameters(), network->chain().leaves(),
              load_checkpoint(*latest_checkpoint(run->of("dit") / "checkpoints")).ema.at("0.6"));
  for (size_t n = 0; n < 2; ++n) {
    const auto key = static_cast<int64_t>(std::stoull(sha256(std::to_string(n)).substr(0, 13), nullptr, 16));
    Tensor x = sample_noise(normalised(samples()[n]), kSeed, key, "train.samples");
    for (int64_t i = 0; i < 2; ++i)
      for (const double s : {1.0, 0.75, 0.5, 0.25}) {
        const Tensor f = velocity(*network, x.narrow(2, 0, i + 1), s, samples()[n].text).detach();
        x.select(2, i).sub_(0.25 * f.select(2, i));
      }
    EXPECT_LT(((got[static_cast<int64_t>(n)] - x[0]).abs().max() / x.abs().max()).item<double>(), 1e-10) << n;
  }
}

TEST(TeacherForcingJob, RefusesWhatItCannotLearn) {
  const auto said = [](const std::string& lines) { return failure(*training(Knobs(), lines)); };
  EXPECT_THAT(said("teacher_forcing = true\nchunk = 2\n"), HasSubstr("2 latent frames are one chunk of 2"));
  EXPECT_THAT(said("chunk = 2\n"), HasSubstr("chunk applies to causal frames"));
  EXPECT_THAT(said("teacher_forcing = true\ncondition_frames = [1]\n"),
              HasSubstr("leave condition_frames empty"));
  EXPECT_THAT(said("teacher_forcing = true\nmodel = { use = 'dit', in_channels = 2, out_channels = 2, "
                   "text_size = 12, layers = 1, heads = 2, head_size = 12, patch_time = 2 }\n"),
              HasSubstr("model/dit makes a token of 2 latent frames"));
}

}  // namespace
}  // namespace kinora::core
