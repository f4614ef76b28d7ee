// Train jobs with teacher forcing on several ranks against one: the log, and the final weights.
#include <cmath>

#include <gtest/gtest.h>

#include "core/torch/weights/safe_tensors.hpp"
#include "tests/support/training.hpp"

namespace kinora {
namespace {

using test::Rank;
using test::ScratchRun;

constexpr double kBound = 1e-10;

struct Trained {
  std::vector<core::json> lines;
  core::NamedTensors weights, samples;  // samples: drawn after the last step
};

// A model of 4 heads, three steps; chunks of two frames, the last of 5 frames alone.
Trained job_of(const Rank& me, const std::string& parallel, const std::string& more, int64_t frames = 5) {
  const ScratchRun run(
      {{"dit",
        "precision = 'fp64'\nteacher_forcing = true\nchunk = 2\nsteps = 3\nbatch = 4\nwarmup = 0\n"
        "learning_rate = 0.01\noptimizer = { use = 'adamw', eps = 1e-4 }\nema = 0\nweights = "
        "'FOLDER/start.safetensors'\n"
        "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 4, "
        "head_size = 12, adaln_lora = 4 }\nparallel = " +
            parallel + "\n" + more}});
  const bool draws = more.find("sample_every") != std::string::npos;
  if (draws) ScratchRun::save(*run.tokenizer("tokenizer"), run.of("tokenizer") / "weights.safetensors");
  test::train(run, me, frames);
  if (me.rank > 0) return {};
  const auto read = [&](const char* file) { return core::read_tensors(run.of("dit") / file); };
  return {run.metrics("dit"), read("weights.safetensors"),
          draws ? read("samples/step-000003.safetensors") : core::NamedTensors()};
}

double worst_of(const at::Tensor& have, const at::Tensor& want) {
  return ((have - want).abs().max() / want.abs().max().clamp_min(1e-3)).item<double>();
}

void trains_as_one_process(const Rank& me, const std::vector<std::string>& layouts, const std::string& more) {
  Rank::alone();
  const Trained want = me.rank == 0 ? job_of({0, 1, me.folder, 0}, "['single']", more) : Trained();
  for (const auto& parallel : layouts) {
    me.launched();
    const Trained have = job_of(me, parallel, more);
    if (me.rank > 0) continue;
    ASSERT_EQ(have.lines.size(), 3U) << parallel;
    for (size_t i = 0; i < 3; ++i)
      for (const char* key : {"loss", "gradient_norm"})
        EXPECT_NEAR(have.lines[i].at(key).get<double>() / want.lines[i].at(key).get<double>(), 1, kBound)
            << key << " of step " << i + 1 << ", " << parallel;
    const auto equal = [&](const core::NamedTensors& these, const core::NamedTensors& those) {
      ASSERT_EQ(these.size(), those.size());
      for (const auto& [name, tensor] : those)
        EXPECT_LT(worst_of(these.at(name).to(at::kDouble), tensor.to(at::kDouble)), kBound)
            << name << ", " << parallel;
    };
    equal(have.weights, want.weights);
    equal(have.samples, want.samples);
    EXPECT_NEAR(have.lines[2].value("validation_loss", 0.0), want.lines[2].value("validation_loss", 0.0),
                kBound);
  }
}

TEST(TeacherForcingOnRanks, TrainsAsOneProcessDoes) {
  test::on_ranks(
      2,
      [](const Rank& me) {
        trains_as_one_process(
            me,
            {"['balanced-sp']", "[{ use = 'balanced-sp', layout = 'naive' }]", "['cp-ulysses']",
             "['cp-ring']", "['tp']", "['fsdp']", "['balanced-sp', 'recompute']"},
            "");
        trains_as_one_process(me, {"['balanced-sp']"},
                              "loss = 'flow'\nwindow = 2\nsink = 1\naccumulate = 2\nvalidation_every = 3\n"
                              "sample_every = 3\nsamples = 1\nsample_steps = 2\n");
      },
      200);
  test::on_ranks(
      4,
      [](const Rank& me) {
        trains_as_one_process(me,
                              {"['balanced-sp']", "['cp-ring']",
                               "[{ use = 'balanced-sp', size = 2 }, { use = 'fsdp', size = 2 }]",
                               "[{ use = 'balanced-sp', size = 2 }, { use = 'tp', size = 2 }, 'recompute']"},
                              "");
      },
      200);
}

// Every rank has as many noisy tokens as clean ones; with equal runs of the sequence the first ranks have
// none.
TEST(TeacherForcingOnRanks, BalancedEveryRankLearns) {
  for (const int64_t n : {2, 4})
    test::on_ranks(static_cast<int>(n), [n](const Rank& me) {
      const auto learnt = [&](const std::string& layout) {
        me.launched();
        return job_of(me, "[{ use = 'balanced-sp', layout = '" + layout + "' }]", "", 4).lines;
      };
      const auto balanced = learnt("balanced"), naive = learnt("naive");
      if (me.rank > 0) return;
      const int64_t noisy = 4 * 4 * 2, each = noisy / n;  // samples, frames, tokens of a frame
      std::vector<int64_t> none_first(static_cast<size_t>(n), 0);
      std::fill(none_first.begin() + n / 2, none_first.end(), 2 * each);
      EXPECT_EQ(balanced[0]["ranks"]["loss_tokens"],
                core::json(std::vector<int64_t>(static_cast<size_t>(n), each)));
      EXPECT_EQ(balanced[0]["ranks"]["tokens"],
                core::json(std::vector<int64_t>(static_cast<size_t>(n), 2 * each)));
      EXPECT_EQ(naive[0]["ranks"]["loss_tokens"], core::json(none_first));
    });
}

}  // namespace
}  // namespace kinora
