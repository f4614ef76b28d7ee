// Time of dedup.semantic's end, in which all clips are compared: by the embedding alone, and with the second
// look at its worst, where each clip has as many others to be compared with as it may have and none is a copy.
#include <random>

#include <benchmark/benchmark.h>

#include "dedup_stage.hpp"
#include "kinora/testing.hpp"
#include "signature_testing.hpp"

namespace kinora::dedup {
namespace {

// Clips of ten seconds whose embeddings have cosines of about 0.98.
Sample clip(size_t i, std::mt19937& random) {
  std::uniform_real_distribution<float> spread(0.75F, 1.25F);
  std::vector<float> vector(488);
  for (float& v : vector) v = spread(random);
  Sample out(std::to_string(1000000 + i));
  out.set("classic.npy", to_npy(vector, {488}));
  out.set("signature", signature_bytes(static_cast<unsigned>(i), {.frames = 40}));
  out.set("json", R"({"duration_s": 10, "width": 320, "height": 180})");
  return out;
}

void BM_AllClips(benchmark::State& state) {
  testing::start();
  for ([[maybe_unused]] const auto each : state) {
    state.PauseTiming();
    std::mt19937 random(1);
    testing::Collector out;
    DedupSemantic stage({.motion = state.range(1) ? 0.85 : 1});
    const auto run = testing::Run("", 2);
    for (int64_t i = 0; i < state.range(0); ++i)
      stage.process(clip(static_cast<size_t>(i), random), out.emit(), run);
    state.ResumeTiming();
    stage.finish(out.emit(), run);
    state.counters["dropped"] = static_cast<double>(out.dropped.size());
  }
}
BENCHMARK(BM_AllClips)
    ->ArgNames({"clips", "motion"})
    ->ArgsProduct({{10000}, {0, 1}})
    ->Iterations(1)
    ->Unit(benchmark::kSecond)
    ->UseRealTime();

}  // namespace
}  // namespace kinora::dedup
