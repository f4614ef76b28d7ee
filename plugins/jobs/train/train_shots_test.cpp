// Train jobs with shots: which samples they draw from a cache of clips, their loss, and what they refuse.
#include "plugins/jobs/training/shots_testing.hpp"
#include "plugins/jobs/training/train_job_testing.hpp"

namespace kinora::core::train_shots {
namespace {

using namespace by_hand;
using at::Tensor;

// Windows of two latent frames: with chunks of one, a sample of two shots has four.
const std::string kShots =
    "teacher_forcing = true\nshots = 2\nshot_jump = 5\nprecision = 'fp64'\n"
    "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 2, "
    "head_size = 12, adaln_lora = 4 }\nloss = { use = 'flow' }\n";

const std::vector<std::string> kKeys{"sea-0000@0", "sea-0001@0", "sky-0007@0"};

void write_clips(const fs::path& folder, const std::vector<std::string>& keys) {
  fs::remove(folder / "latents.h5");
  LatentCacheWriter cache(folder / "latents.h5", "{}");
  const auto all = by_hand::samples();
  for (size_t i = 0; i < keys.size(); ++i)
    cache.add(keys[i], {{"latent", all[i].latent}, {"text", all[i].text}});
  cache.commit();
}

std::unique_ptr<ScratchRun> training_of_shots(const std::string& more = "",
                                              const std::vector<std::string>& keys = kKeys) {
  Knobs k;
  k.dropout = 0;
  auto run = training(k, kShots + more);
  write_clips(run->of("latents"), keys);
  return run;
}

// The only two successive clips, sea-0000 and sea-0001, are every sample.
TEST(TrainShots, LearnTwoClipsOfAVideoAsOneGeneration) {
  const auto run = training_of_shots();
  const json summary = trained(*run);
  EXPECT_EQ(summary.at("samples"), 1);
  EXPECT_EQ(summary.at("windows_left_out"), 1) << "sky-0007";
  shots_testing::KeptWithGradients kept;
  const auto network = run->model("dit", "model", at::kDouble, {kept.get()});
  const auto all = by_hand::samples();
  const Tensor x0 = at::cat({normalised(all[0]), normalised(all[1])}, 2);
  FrameOptions o;
  o.teacher_forcing = true;
  double want = 0;
  const Knobs k;
  for (int64_t n = 0; n < k.batch; ++n) {
    const Tensor levels = at::special_ndtri(sample_uniform({1, 4}, kSeed, n, "train.sigma")).sigmoid();
    const auto text = [&](size_t i) { return all[i].text.to(at::kDouble).unsqueeze(0); };
    want += shots_testing::loss_by_chunks(
                *network, kept, o, {Frames::Pin::own, 5},
                {x0, sample_noise(x0, kSeed, n, "train.noise"), levels, {text(0), text(1)}})
                .item<double>() /
            static_cast<double>(k.batch);
  }
  EXPECT_NEAR(run->metrics("dit").at(0).at("loss").get<double>() / want, 1, 1e-10);
}

TEST(TrainShots, AreTheSameInMicrobatchesWithValidation) {
  const std::string lines = "validation_every = 2\nvalidation_samples = 1\n";
  const auto one = training_of_shots(lines), split = training_of_shots(lines + "accumulate = 2\n");
  const json a = trained(*one), b = trained(*split);
  EXPECT_NEAR(a.at("loss").get<double>() / b.at("loss").get<double>(), 1, 1e-12);
  EXPECT_NEAR(a.at("validation_loss").get<double>() / b.at("validation_loss").get<double>(), 1, 1e-12);
  EXPECT_LT(worst(read_tensors(one->of("dit") / "weights.safetensors"),
                  read_tensors(split->of("dit") / "weights.safetensors")),
            1e-12);
}

TEST(TrainShots, RefuseWhatTheyCannotLearn) {
  EXPECT_THAT(failure(*training_of_shots("", {"a", "b", "c"})), HasSubstr("as VIDEO-0003 does"));
  EXPECT_THAT(failure(*training_of_shots("", {"sea-0000@0", "sea-0002@0", "sky-0000@0"})),
              HasSubstr("none of the 2 videos has so many"));
  EXPECT_THAT(failure(*training_of_shots("chunk = 3\n")),
              HasSubstr("windows of 2 latent frames are shorter than chunk = 3"));
  EXPECT_THAT(failure(*training_of_shots("sample_every = 2\n")), HasSubstr("its pictures have one prompt"));
  EXPECT_THAT(failure(*training(Knobs(), "shots = 2\n")), HasSubstr("add teacher_forcing = true"));
}

}  // namespace
}  // namespace kinora::core::train_shots
