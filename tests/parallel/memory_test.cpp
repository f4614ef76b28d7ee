// What a rank keeps of a forward for its backward: a layer's share for each of its tokens, by formula 1 /
// ranks.
#include <algorithm>
#include <cstdlib>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include "core/torch/context/parallelism.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora {
namespace {

using test::Rank;

// Bytes that libtorch's allocator gave out and did not get back yet, at most.
class Peak final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now_ += size;
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  int64_t now_ = 0, most_ = 0;
};

struct Share {
  std::string parallel;
  std::string model = "dit";
  core::Frames rule = {};
};

int64_t peak_of_step(const Rank& me, const Share& s, int64_t layers, int64_t frames) {
  static int trials = 0;
  setenv("RANK", std::to_string(me.rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(me.size).c_str(), 1);
  setenv("KINORA_RENDEZVOUS", (me.file() + "." + std::to_string(trials++)).c_str(), 1);
  const test::ScratchRun run({{"dit", "parallel = " + s.parallel + "\nmodel = { use = '" + s.model +
                                          "', in_channels = 2, out_channels = 2, text_size = 12, heads = 4, "
                                          "head_size = 12, adaln_lora = 4, layers = " +
                                          std::to_string(layers) + " }"}});
  core::JobContext context = run.context("dit", false);
  const core::Parallelism parallel(context);
  const core::Component model = context.open_slot("model");
  core::ChainOptions options;
  options.frames = s.rule;
  core::Network network(model, context.spec().component("model")->options, options, parallel.links());
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  network.chain().begin(pass);
  const core::NamedTensors in = {{"latent", at::ones({1, 2, frames, 16, 16})},
                                 {"timestep", at::full({1}, 0.5)},
                                 {"text", at::ones({1, 4, 12})}};
  const auto info = std::make_shared<Peak>();
  const c10::DebugInfoGuard measure(c10::DebugInfoKind::PROFILER_STATE, info);
  network.forward(in).at(0).sum().backward();
  return info->most();
}

// Bytes that one more layer keeps of eight more frames: what is there once (weights, the latent, one
// attention at a time) does not count.
double kept(const Rank& me, const Share& s) {
  const auto of = [&](int64_t layers, int64_t frames) {
    return static_cast<double>(peak_of_step(me, s, layers, frames));
  };
  return of(6, 16) - of(2, 16) - of(6, 8) + of(2, 8);
}

TEST(ActivationMemory, FallsAsOneByTheRanks) {
  const core::Frames teacher{.streams = 2};
  const std::vector<Share> shares = {{"['tp']"},
                                     {"['cp-ulysses']"},
                                     {"['cp-ring']"},
                                     {"['stdit-hybrid']", "stdit"},
                                     {"['balanced-sp']", "dit", teacher}};
  for (const int size : {2, 4})
    test::on_ranks(
        size,
        [&](const Rank& me) {
          for (const auto& s : shares) {
            const double here = kept(me, s);
            const double alone = kept({0, 1, me.folder, me.port}, {"['single']", s.model, s.rule});
            EXPECT_NEAR(alone / here, me.size, 0.05 * me.size) << s.parallel;
          }
        },
        120);
}

}  // namespace
}  // namespace kinora
