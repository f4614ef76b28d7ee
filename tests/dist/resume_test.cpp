// A training that resumes under another layout of ranks ends where one uninterrupted process ends.
#include <algorithm>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/training.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
using test::Rank;
using test::ScratchRun;

struct Layout {
  int ranks;
  const char* parallel;  // as in a job
};
constexpr Layout kSingle{1, "['single']"}, kRing{2, "['cp-ring']"},
    kTpFsdp{4, "[{ use = 'tp', size = 2 }, { use = 'fsdp', size = 2 }]"},
    kPpTp{4, "[{ use = 'pp', size = 2 }, { use = 'tp', size = 2 }]"},
    kInterleavedDdp{4, "[{ use = 'pp', size = 2, schedule = 'interleaved' }, 'ddp']"},
    kFsdpDdp{4, "[{ use = 'fsdp', size = 2, stage = 2 }, 'ddp', 'recompute']"},
    kGridRing{4, "[{ use = 'cp-2d', ulysses = 2 }]"};

// Four steps with clipping, decay and averages, and the checkpoint of a run after two of them.
std::map<std::string, std::string> job(const Layout& l) {
  return {{"dit",
           std::string("precision = 'fp64'\nparallel = ") + l.parallel +
               "\nsteps = 4\nbatch = 8\naccumulate = 2\nwarmup = 0\nlearning_rate = 0.01\noptimizer = { use "
               "= 'adamw', eps = 1e-4 }\n"
               "weight_decay = 0.1\nclip_norm = 0.05\nema = [0.5]\ncheckpoint_every = 2\nkeep = 10\n"
               "weights = 'FOLDER/start.safetensors'\n"
               "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads "
               "= 4, head_size = 12, adaln_lora = 4 }\n"}};
}

fs::path checkpoint(const ScratchRun& run, int step) {
  return run.of("dit") / "checkpoints" / fmt::format("step-{:06}", step);
}

// Trains on as many of the ranks as the layout has.
void train_under(const Layout& l, const ScratchRun& run, const Rank& me) {
  const Rank here{me.rank, l.ranks, me.folder, me.port};
  here.launched();
  if (me.rank < l.ranks) test::train(run, here);
}

void expect_near(const fs::path& have, const fs::path& want, const std::string& how) {
  const auto got = core::read_tensors(have), wanted = core::read_tensors(want);
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, t] : wanted)
    EXPECT_LT(((got.at(name) - t).abs().max() / t.abs().max()).item<double>(), 1e-10) << how << ": " << name;
}

void goes_on(const Layout& before, const std::vector<Layout>& after) {
  test::on_ranks(
      4,
      [&](const Rank& me) {
        const ScratchRun alone(job(kSingle)), first(job(before));
        train_under(kSingle, alone, me);
        train_under(before, first, me);
        for (const auto& l : after) {
          const ScratchRun rest(job(l));
          if (me.rank == 0) {
            fs::create_directories(rest.of("dit") / "checkpoints");
            fs::copy(checkpoint(first, 2), checkpoint(rest, 2), fs::copy_options::recursive);
          }
          train_under(l, rest, me);
          if (me.rank != 0) continue;
          const std::string how = std::string(before.parallel) + " and then " + l.parallel;
          ASSERT_EQ(rest.metrics("dit").size(), 2U) << how;
          EXPECT_EQ(rest.metrics("dit")[0].at("step"), 3) << how;
          for (const char* file : {"weights", "optimizer", "ema-0.5"})
            expect_near(checkpoint(rest, 4) / (std::string(file) + ".safetensors"),
                        checkpoint(alone, 4) / (std::string(file) + ".safetensors"), how + ", " + file);
          expect_near(rest.of("dit") / "weights.safetensors", alone.of("dit") / "weights.safetensors", how);
        }
        me.meet("end");  // the other ranks use rank 0's folders
      },
      120);
}

TEST(GoesOn, FromTensorAndShardedParallelism) { goes_on(kTpFsdp, {kSingle, kPpTp, kRing}); }
TEST(GoesOn, FromAPipeline) { goes_on(kInterleavedDdp, {kTpFsdp, kSingle}); }
TEST(GoesOn, FromOneProcess) { goes_on(kSingle, {kFsdpDdp, kPpTp}); }
TEST(GoesOn, FromContextParallelism) { goes_on(kGridRing, {kFsdpDdp, kInterleavedDdp}); }

}  // namespace
}  // namespace kinora
