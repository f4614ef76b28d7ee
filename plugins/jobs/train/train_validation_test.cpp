// Tests what a training job reports about samples that it does not learn from.
#include <set>

#include "core/base/digest.hpp"
#include "plugins/jobs/training/train_job_testing.hpp"
#include "plugins/jobs/training/validation.hpp"

namespace kinora::core {
namespace {

using namespace by_hand;

// The loss at two levels on the first samples, by the averaged weights, with noise that depends only on the
// key.
TEST(TrainJob, ValidatesAtFixedLevelsWithNoiseOfItsOwn) {
  Knobs k;
  const auto run =
      training(k,
               "precision = 'fp64'\nvalidation_every = 4\nvalidation_samples = 2\n"
               "validation_sigmas = [0.5, 2.0]\nlog_every = 3\nsample_every = 4\nsample_steps = 3\n");
  ScratchRun::save(*run->tokenizer("tokenizer"), run->of("tokenizer") / "weights.safetensors");
  const json summary = trained(*run);
  const auto network = run->model("dit", "model", at::kDouble);
  const Reference want = reference(*network, samples(), k);
  load_values(network->chain().parameters(), network->chain().leaves(), want.averages);
  const auto lines = run->metrics("dit");
  ASSERT_EQ(lines.size(), 2u) << "those of steps 3 and 4";
  const json& got = lines[1].at("validation");
  double mean = 0;
  for (size_t i = 0; i < 2; ++i) {
    const double sigma = i == 0 ? 0.5 : 2;
    double sum = 0;
    for (const size_t n : {0, 1}) {
      const auto first =
          static_cast<int64_t>(std::stoull(sha256(std::to_string(n)).substr(0, 13), nullptr, 16));
      sum += loss_at(*network, samples()[n], sigma,
                     sample_noise(normalised(samples()[n]), kSeed, first, "validation.noise"), false)
                 .item<double>();
    }
    EXPECT_NEAR(got.at("loss")[i].get<double>() / (sum / 2), 1, 1e-10);
    mean += sum / 4;
  }
  EXPECT_NEAR(summary.at("validation_loss").get<double>() / mean, 1, 1e-10);
  EXPECT_EQ(summary.at("held_out"), 0);
  EXPECT_TRUE(fs::exists(run->of("dit") / "samples/step-000004.png"));
  // Validation does not change the training.
  const auto blind = training(k, "precision = 'fp64'\n");
  trained(*blind);
  EXPECT_EQ(worst(read_tensors(run->of("dit") / "weights.safetensors"),
                  read_tensors(blind->of("dit") / "weights.safetensors")),
            0);
}

TEST(Split, HoldsOutAShareThatDoesNotMove) {
  const auto of = [](int clips) {
    const auto run = std::make_unique<ScratchRun>();
    fs::create_directories(run->of("latents"));
    LatentCacheWriter cache(run->of("latents") / "latents.h5", "{}");
    for (int i = 0; i < clips; ++i)
      for (const char* window : {"@0", "@17"})
        cache.add("clip-" + std::to_string(i) + window,
                  {{"latent", at::zeros({1})}, {"text", at::zeros({1, 1})}});
    cache.commit();
    LatentFacts facts;
    facts.scale = {{0}, {1}, 1};
    std::ofstream(run->of("latents") / "latents.json") << facts.to_json().dump();
    const LatentData data(run->of("latents"));
    const Split parts = split(data, 0.2);
    EXPECT_EQ(parts.train.size() + parts.held_out.size(), 2u * static_cast<size_t>(clips));
    std::set<std::string> keys;
    for (const int64_t i : parts.held_out) keys.insert(data.key(i));
    EXPECT_EQ(split(data, 0).held_out.size(), 0u);
    return keys;
  };
  const auto few = of(100), many = of(200);
  EXPECT_NEAR(static_cast<double>(many.size()) / 400, 0.2, 0.06);
  std::set<std::string> old;
  for (const auto& key : many)
    if (std::stoi(key.substr(5)) < 100) old.insert(key);
  EXPECT_EQ(old, few);
  for (const auto& key : many) EXPECT_EQ(many.count(key.substr(0, key.find('@')) + "@17"), 1u) << key;
}

}  // namespace
}  // namespace kinora::core
