// An optimizer step on a model of many leaves, with clipping and one average: in one pass, and as libtorch's
// kernel with separate passes for clipping and averaging.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include "plugins/jobs/training/optimizer_testing.hpp"

namespace kinora::core {
namespace {

using test::AdamW;

// Opening the plugins sets one thread, as tests want it.
const int kThreads = [] {
  const int all = at::get_num_threads();
  test::plugins();
  at::set_num_threads(all);
  return all;
}();

struct Blocks {
  Parameters parameters;
  std::vector<Leaf> leaves;
  Blocks() {  // blocks of width 512: a few large matrices and many vectors, 25 million numbers
    for (int block = 0; block < 8; ++block)
      for (const auto& shape : std::vector<std::vector<int64_t>>{
               {1536, 512}, {512, 512}, {2048, 512}, {512, 2048}, {512}, {512}, {64}, {64}}) {
        Parameter p;
        p.shape = shape;
        p.parts = {shape[0]};
        parameters.push_back(p);
        at::Tensor t = at::randn(shape);
        t.set_requires_grad(true);
        t.mutable_grad() = at::randn(shape);
        leaves.push_back(
            {"", t, false, false, {{static_cast<kinora_param>(parameters.size()), 0, p.numel(), 0}}});
      }
  }
};

void one_pass(benchmark::State& state) {
  Blocks m;
  AdamW adam(m.parameters, m.leaves);
  Ema ema(m.leaves, 0.99);
  for (auto _ : state) adam.step(1e-3, 0.999, {&ema});
}
BENCHMARK(one_pass)->Unit(benchmark::kMillisecond)->UseRealTime();

void passes_of_libtorch(benchmark::State& state) {
  Blocks m;
  AdamW adam(m.parameters, m.leaves);
  Ema ema(m.leaves, 0.99);
  const at::NoGradGuard off;
  std::vector<at::Tensor> w, g, steps;
  for (auto& l : m.leaves) {
    w.push_back(l.tensor.detach());
    g.push_back(l.tensor.grad());
    steps.push_back(at::ones({}));
  }
  for (auto _ : state) {
    for (auto& one : g) one.mul_(0.999);
    at::_fused_adamw_(w, g, adam.state(0), adam.state(1), {}, steps, 1e-3, 0.9, 0.999, 0.01, 1e-8, false,
                      false);
    ema.update(m.leaves);
  }
}
BENCHMARK(passes_of_libtorch)->Unit(benchmark::kMillisecond)->UseRealTime();

void adamw_alone(benchmark::State& state) {
  Blocks m;
  AdamW adam(m.parameters, m.leaves);
  for (auto _ : state) adam.step(1e-3);
}
BENCHMARK(adamw_alone)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace kinora::core
