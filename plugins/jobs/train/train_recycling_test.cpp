// Train jobs that recycle their errors.
#include "plugins/jobs/training/objective.hpp"
#include "plugins/jobs/training/train_job_testing.hpp"

namespace kinora::core::train_recycling {
namespace {

using namespace by_hand;
using by_hand::trained;
using at::Tensor;

const std::string kForced =
    "teacher_forcing = true\nprecision = 'fp64'\nloss = { use = 'flow' }\n"
    "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, heads = 2, "
    "head_size = 12, adaln_lora = 4 }\ncheckpoint_every = 2\nkeep = 10\nasync_checkpoints = false\n";
const std::string kRecycling = "error_recycling = { start = 1, buckets = 2, entries = 8, noise = 0.5 }\n";

std::vector<json> lines_of(const std::string& more) {
  Knobs k;
  k.steps = 6;
  const auto run = training(k, kForced + more);
  trained(*run);
  return run->metrics("dit");
}

// The errors of the first step change the second one: what is learnt from x' and c is still the clean latent.
TEST(TrainRecycling, BeginsAfterItsStart) {
  const auto plain = lines_of(""), with = lines_of(kRecycling),
             late = lines_of("error_recycling = { start = 6 }\n");
  ASSERT_EQ(with.size(), 6u);
  for (size_t step = 0; step < 6; ++step) {
    const auto loss = [step](const auto& of) { return of[step].at("loss").template get<double>(); };
    EXPECT_EQ(loss(late), loss(plain)) << step;
    if (step == 0)
      EXPECT_EQ(loss(with), loss(plain));
    else
      EXPECT_GT(std::abs(loss(with) / loss(plain) - 1), 1e-6) << step;
  }
  EXPECT_EQ(with[0].at("stored_errors"), 4 * 2) << "a batch of four with two chunks each";
  EXPECT_LE(with[5].at("stored_errors").get<int64_t>(), 2 * 8);
}

// The model reads context and x = (1 - s) latent + s noise, and learns noise - x0.
TEST(TrainRecycling, LearnsTheCleanLatentFromDisturbedStreams) {
  const auto run = training(Knobs(), kForced);
  const auto network = run->model("dit", "model", at::kDouble);
  network->chain().set_frames({.streams = 2, .chunk = 1});
  const auto& use = *run->spec("dit").component("loss");
  LossInstance loss(or_throw(test::runtime().registry().open(use.id)), use.options);
  const Objective objective(loss, *network, *or_throw(test::runtime().registry().find("model", "model/dit")),
                            at::kDouble, at::kDouble, at::kCPU, {}, 0, 0.0);
  const auto numbers = [](const char* key, std::vector<int64_t> shape) {
    return sample_noise(at::empty(shape, at::kDouble), kSeed, 0, key);
  };
  const std::vector<int64_t> video{2, 2, 2, 2, 4};
  const Tensor x0 = numbers("x0", video), noise = numbers("noise", video), text = numbers("text", {2, 3, 12}),
               s = at::tensor({0.2, 0.7, 0.5, 0.9}, at::kDouble).view({2, 2}), wide = s.view({2, 1, 2, 1, 1});
  Disturbed streams{numbers("context", video), numbers("latent", video), {}};
  const Tensor got = objective.losses({{"latent", x0}, {"text", text}}, s, noise, {}, &streams);
  const Tensor x = (1 - wide) * streams.latent + wide * noise;
  const Tensor out = network
                         ->forward({{"latent", at::cat({streams.context, x}, 2)},
                                    {"timestep", at::cat({at::zeros_like(s), 1000 * s}, 1)},
                                    {"text", text}})
                         .at(0)
                         .narrow(2, 2, 2);
  EXPECT_LT((got / (out - (noise - x0)).square().mean({1, 2, 3, 4}) - 1).abs().max().item<double>(), 1e-12);
  EXPECT_TRUE(at::allclose(streams.prediction, out, 1e-12, 1e-12));
  EXPECT_FALSE(streams.prediction.requires_grad());
}

TEST(TrainRecycling, ResumedEqualsUninterrupted) {
  Knobs k;
  k.steps = 6;
  const auto whole = training(k, kForced + kRecycling), resumed = training(k, kForced + kRecycling);
  trained(*whole);
  fs::create_directories(resumed->of("dit") / "checkpoints");
  fs::copy(whole->of("dit") / "checkpoints/step-000002", resumed->of("dit") / "checkpoints/step-000002",
           fs::copy_options::recursive);
  trained(*resumed);
  const auto a = whole->metrics("dit"), b = resumed->metrics("dit");
  ASSERT_EQ(b.size(), 4u);
  for (size_t i = 0; i < 4; ++i)
    for (const char* key : {"step", "loss", "gradient_norm", "stored_errors"})
      EXPECT_EQ(a[i + 2].at(key), b[i].at(key)) << i << key;
  for (const char* file : {"weights.safetensors", "checkpoints/step-000006/more.safetensors"}) {
    const auto w = read_tensors(whole->of("dit") / file), r = read_tensors(resumed->of("dit") / file);
    ASSERT_EQ(w.size(), r.size());
    for (const auto& [name, t] : w) EXPECT_TRUE(at::equal(t, r.at(name))) << file << name;
  }
}

TEST(TrainRecycling, RefusesWhatItCannotRecycle) {
  const auto said = [](const std::string& lines) { return failure(*training(Knobs(), lines)); };
  EXPECT_THAT(said("error_recycling = {}\nloss = { use = 'flow' }\n"),
              HasSubstr("add teacher_forcing = true"));
  EXPECT_THAT(said("error_recycling = {}\nteacher_forcing = true\n"),
              HasSubstr("needs a loss that blends latent and noise"));
  EXPECT_THAT(said("error_recycling = { share = 1 }\n"), HasSubstr("'share' = 1 is unknown"));
}

}  // namespace
}  // namespace kinora::core::train_recycling
