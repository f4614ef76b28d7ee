#include "plugins/jobs/train/small_dit.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/network/meter_link.hpp"
#include "core/torch/network/throughput.hpp"
#include "plugins/jobs/training/norms.hpp"

namespace kinora::core {
namespace {

Options options_of(const Component& component, const json& given = json::object()) {
  return or_throw(Options::make(*component.spec, given));
}

// Seconds of processor time, so that other work on the machine does not count.
double processor_seconds(const std::function<void()>& work) {
  const auto start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace

SmallDit::SmallDit(Runtime& runtime, int64_t side)
    : component_(or_throw(runtime.registry().open("model/dit"))),
      options_(options_of(component_, {{"in_channels", 16},
                                       {"out_channels", 16},
                                       {"layers", 6},
                                       {"heads", 4},
                                       {"head_size", 64},
                                       {"mlp_ratio", 4},
                                       {"adaln_lora", 64},
                                       {"text_size", 256}})),
      network_(component_, options_, ChainOptions{}),
      optimizer_(or_throw(runtime.registry().open("optimizer/adamw")),
                 options_of(or_throw(runtime.registry().open("optimizer/adamw"))),
                 network_.chain().parameters(), network_.chain().leaves(), usual_decay(0.01)) {
  at::manual_seed(1);
  const std::vector<int64_t> latent{1, 16, side / 4, side, side};
  in_ = {{"latent", at::randn(latent)}, {"timestep", at::full({1}, 0.5)}, {"text", at::randn({1, 64, 256})}};
  target_ = at::randn(latent);
  flops_ = model_flops(component_, options_, in_).total();
}

void SmallDit::call() {
  const at::NoGradGuard off;
  network_.forward(in_);
}

void SmallDit::step() {
  auto& leaves = network_.chain().leaves();
  optimizer_.zero_grad();
  at::mse_loss(network_.forward(in_)[0], target_).backward();
  network_.chain().reduce();
  optimizer_.step(1e-4, clip_factor(gradient_norm(leaves), 1));
}

StepRate measured_step_rate(Runtime& runtime) {
  constexpr int64_t kSide = 2048;
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  SmallDit dit(runtime, 32);
  const at::Tensor a = at::randn({kSide, kSide}), b = at::randn({kSide, kSide});
  dit.step();  // warms up allocations and libtorch's choices
  double step = 1e30;
  for (int i = 0; i < 3; ++i) step = std::min(step, processor_seconds([&] { dit.step(); }));
  const double product = 2 * std::pow(kSide, 3.0) / processor_seconds([&] { at::mm(a, b); });
  at::set_num_threads(before);
  return {product, kTrainingStep * dit.flops() / step / product};
}

}  // namespace kinora::core
