// Training for image to video, and the samples that a training draws.
#include "core/base/digest.hpp"
#include "core/run/identity.hpp"
#include "plugins/jobs/training/train_job_testing.hpp"

namespace kinora::core {
namespace {

using namespace by_hand;

constexpr const char* kGivenModel =
    "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 2, "
    "head_size = 12, adaln_lora = 4 }\nloss = { use = 'flow' }\n";

std::vector<double> losses(const ScratchRun& run) {
  std::vector<double> out;
  for (const auto& line : run.metrics("dit")) out.push_back(line.at("loss").get<double>());
  return out;
}

TEST(TrainGiven, IsTheSameInMicrobatches) {
  Knobs k;
  const std::string given =
      "precision = 'fp64'\ncondition_frames = [0, 1]\nvalidation_every = 4\nvalidation_samples = 3\n";
  const auto one = training(k, given), split = training(k, given + "accumulate = 2\n"),
             without = training(k, "precision = 'fp64'\n");
  const json a = trained(*one), b = trained(*split);
  trained(*without);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(losses(*one)[i] / losses(*split)[i], 1, 1e-12);
  EXPECT_NE(losses(*one), losses(*without));
  EXPECT_NEAR(a.at("validation_loss").get<double>() / b.at("validation_loss").get<double>(), 1, 1e-12);
}

// Videos without motion: a model that is given the first frame knows the second, others can only guess it.
TEST(TrainGiven, AGivenFrameTellsTheOnesThatFollow) {
  at::manual_seed(3);
  std::vector<Sample> still;
  for (int i = 0; i < 64; ++i)
    still.push_back({at::randn({2, 1, 2, 4}).expand({2, 2, 2, 4}).contiguous(), at::zeros({1, 12})});
  Knobs k;
  k.steps = 500, k.batch = 8, k.learning_rate = 1e-2, k.eps = 1e-8, k.clip = 1, k.decay = 0, k.dropout = 0;
  const auto apart = [&](const std::string& more) {
    const auto run =
        training(k, kGivenModel + std::string("validation = 0.25\nsample_every = 500\nsamples = 8\n") + more,
                 still, "0.98");
    ScratchRun::save(*run->tokenizer("tokenizer"), run->of("tokenizer") / "weights.safetensors");
    trained(*run);
    const auto made =
        read_tensors(run->of("dit") / "samples/step-000500.safetensors").at("latent").to(at::kDouble);
    EXPECT_EQ(made.sizes(), (std::vector<int64_t>{8, 2, 2, 2, 4}));
    const at::Tensor first = made.select(2, 0), second = made.select(2, 1);
    return ((first - second).square().mean() / first.square().mean()).item<double>();
  };
  const auto worth = [&](const std::string& more) {
    const auto run = training(
        k,
        kGivenModel + std::string("validation = 0.25\nvalidation_every = 500\nvalidation_sigmas = [0.7]\n") +
            more,
        still, "0.98");
    return trained(*run).at("validation_loss").get<double>();
  };
  const std::string given = "condition_frames = [1]\n";
  const double with = 2 * worth(given), without = worth("");  // of two frames one is learned
  EXPECT_LT(with, 0.5 * without);
  const double moved = apart(given);
  EXPECT_LT(moved, 0.2);
  RecordProperty("loss_with", std::to_string(with));
  RecordProperty("loss_without", std::to_string(without));
  RecordProperty("moved", std::to_string(moved));
}

// Euler's steps by hand with the averaged weights, from noise that depends only on the sample's key. Uses the
// job's own sampler with its levels, or the default sampler of the loss, whose last level is 0.001.
using Levels = std::vector<double>;
class TrainSamples : public testing::TestWithParam<std::pair<const char*, Levels>> {};

TEST_P(TrainSamples, AreWhatTheSamplerMakesOfTheAverages) {
  Knobs k;
  const auto run = training(
      k, std::string(kGivenModel) + "precision = 'fp64'\nsample_every = 4\nsamples = 2\n" + GetParam().first);
  const Levels& levels = GetParam().second;
  ScratchRun::save(*run->tokenizer("tokenizer"), run->of("tokenizer") / "weights.safetensors");
  trained(*run);
  const auto got = read_tensors(run->of("dit") / "samples/step-000004.safetensors").at("latent");
  const auto network = run->model("dit", "model", at::kDouble);
  load_values(network->chain().parameters(), network->chain().leaves(),
              load_checkpoint(*latest_checkpoint(run->of("dit") / "checkpoints")).ema.at("0.6"));
  for (size_t n = 0; n < 2; ++n) {
    const auto key = static_cast<int64_t>(std::stoull(sha256(std::to_string(n)).substr(0, 13), nullptr, 16));
    at::Tensor x = sample_noise(normalised(samples()[n]), kSeed, key, "train.samples");
    for (size_t i = 0; i + 1 < levels.size(); ++i) {
      const at::Tensor f = network
                               ->forward({{"latent", x},
                                          {"timestep", at::full({1}, 1000 * levels[i], at::kDouble)},
                                          {"text", samples()[n].text.to(at::kDouble).unsqueeze(0)}})
                               .at(0);
      x = (x - f * (levels[i] - levels[i + 1])).detach();
    }
    EXPECT_LT(((got[static_cast<int64_t>(n)] - x[0]).abs().max() / x.abs().max()).item<double>(), 1e-10) << n;
  }
  EXPECT_TRUE(fs::exists(run->of("dit") / "samples/step-000004.png"));
  std::string events;
  for (const auto& file : fs::directory_iterator(run->of("dit") / "tensorboard")) {
    std::ifstream in(file.path(), std::ios::binary);
    events.append(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_THAT(events, HasSubstr("samples"));
  EXPECT_THAT(events, HasSubstr("loss_by_sigma/"));
}

INSTANTIATE_TEST_SUITE_P(
    Of, TrainSamples,
    testing::Values(std::pair{"sampler = { use = 'flow-euler', steps = 4, convention = 'uniform' }\n",
                              Levels{1, 0.75, 0.5, 0.25, 0}},
                    std::pair{"sample_steps = 4\n", Levels{1, 0.667, 0.334, 0.001, 0}}));

// The pictures are decoded by the tokenizer that encoded the latents: here the encode job's own.
TEST(TrainPictures, AreDecodedByAnEncodeJobsOwnTokenizer) {
  Knobs k;
  const ScratchRun run(
      {{"latents",
        "tokenizer = { use = 'cosmos', latent_channels = 2, encoder_block_out_channels = [4, 8, 8], "
        "decode_block_out_channels = [4, 8, 8] }\ntokenizer_weights = ['FOLDER/own.safetensors']\n"},
       {"dit", k.toml() + "ema = 0.5\nsample_every = 4\nsamples = 1\n" + kGivenModel}});
  ASSERT_EQ(run.problems(), "");
  write_latents(run.of("latents"), samples());
  ScratchRun::save(*run.tokenizer("latents"), run.folder() / "own.safetensors");
  trained(run);
  EXPECT_TRUE(fs::exists(run.of("dit") / "samples/step-000004.png"));
}

// How pictures are drawn during training is not part of the training's identity.
TEST(TrainPictures, ChangeNoTrainingsIdentity) {
  const ScratchRun run({{"dit", std::string(kGivenModel) + "sampler = { use = 'flow-euler', steps = 3 }\n"}});
  ASSERT_EQ(run.problems(), "");
  const JobSpec& dit = run.spec("dit");
  JobSpec other = dit;
  other.options.update({{"sample_every", 2}, {"samples", 4}, {"sample_steps", 3}});
  std::erase_if(other.components, [](const ComponentUse& use) { return use.slot == "sampler"; });
  JobIdentities identities(run.run());
  const std::string digest = identities.of(dit).digest;
  EXPECT_EQ(identities.of(other).digest, digest);
  other.options["steps"] = 7;
  EXPECT_EQ(identities.of(other).digest, digest) << "computed once";
  identities.forget();
  EXPECT_NE(identities.of(other).digest, digest);
}

}  // namespace
}  // namespace kinora::core
