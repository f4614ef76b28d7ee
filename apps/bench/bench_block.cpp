#include "apps/bench/bench_block.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/torch/context/meter_link.hpp"
#include "core/torch/context/network.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/context/throughput.hpp"

namespace kinora::core {
namespace {

const json kBlock = {
    {"size", "7B"}, {"layers", 1}, {"text_size", 1024}, {"in_channels", 16}, {"out_channels", 16}};

// T, H, W of a latent of about this many tokens: frames of 32 x 32, or a part of one.
std::array<int64_t, 3> size_of(int64_t tokens) {
  const int64_t frames = std::max<int64_t>(1, tokens / 1024);
  return {frames, 2 * (frames > 1 ? 32 : std::max<int64_t>(1, tokens / 32)), 64};
}

}  // namespace

json bench_block(Runtime& runtime, const json& request) {
  const at::Device device = device_of(request.at("device"));
  const int threads = request.at("threads"), repeat = request.at("repeat");
  const auto dtype = device.is_cpu() ? at::kFloat : at::kBFloat16;
  const auto [T, H, W] = size_of(request.at("tokens"));
  const auto component = or_throw(runtime.registry().open("model/dit"));
  const Options options = or_throw(Options::make(*component.spec, kBlock));
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  Network network(component, options, ChainOptions{.device = device, .dtype = dtype});
  at::manual_seed(1);
  const auto drawn = [&](at::IntArrayRef shape) { return at::randn(shape).to(device, dtype); };
  const NamedTensors in = {{"latent", drawn({1, 16, T, H, W})},
                           {"timestep", at::full({1}, 0.5).to(device)},
                           {"text", drawn({1, 512, 1024})}};
  const at::Tensor target = drawn({1, 16, T, H, W});
  const auto step = [&] {
    for (auto& leaf : network.chain().leaves()) leaf.tensor.mutable_grad().reset();
    at::mse_loss(network.forward(in)[0], target).backward();
    network.chain().leaves().front().tensor.grad().sum().item();  // waits for the device
  };
  step();
  double best = 1e30, product = 0;
  for (int round = 0; round < repeat; ++round) {
    const auto start = std::chrono::steady_clock::now();
    step();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    product = std::max(product, measured_peak_flops(device, dtype));
  }
  at::set_num_threads(before);
  const double flops = kTrainingStep * model_flops(component, options, in);
  return {{"device", device.str()},
          {"dtype", c10::toString(dtype)},
          {"tokens", T * H * W / 4},
          {"ms", best * 1e3},
          {"gflop", flops / 1e9},
          {"gflops", flops / best / 1e9},
          {"product_gflops", product / 1e9},
          {"of_product", flops / best / product}};
}

}  // namespace kinora::core
