// One block of the 7B DiT: forward and backward; on a GPU also in the precisions of few bits, and the forward
// alone with and without a CUDA graph.
#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "apps/bench/tensors.hpp"
#include "core/runtime/runtime.hpp"
#include "core/torch/network/meter_link.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/throughput.hpp"
#include "core/torch/tensors/device.hpp"
#include "kinora/abi/precision.h"
#include "plugins/jobs/inference/replays.hpp"

namespace kinora::core {
namespace {

const json kBlock = {
    {"size", "7B"}, {"layers", 1}, {"text_size", 1024}, {"in_channels", 16}, {"out_channels", 16}};

struct Setting {
  const char *name, *precision;  // precision: a component, or null
  json options;
};

// Weights and the residual stream are bfloat16 in all of them, and every linear layer of the block is low.
std::vector<Setting> settings(bool low_too) {
  if (!low_too) return {{"plain", nullptr, {}}};
  const json low = {{"stream", "bfloat16"}, {"high", json::array()}};
  json low_attention = low;
  low_attention["attention"] = "fp8";
  return {{"plain", nullptr, {}},
          {"fp8", "precision/fp8", low},
          {"fp8_attention", "precision/fp8", low_attention},
          {"nvfp4", "precision/nvfp4", low}};
}

// T, H, W of a latent of about this many tokens: frames of 32 x 32, or a part of one.
std::array<int64_t, 3> size_of(int64_t tokens) {
  const int64_t frames = std::max<int64_t>(1, tokens / 1024);
  return {frames, 2 * (frames > 1 ? 32 : std::max<int64_t>(1, tokens / 32)), 64};
}

class Precision {
 public:
  Precision(Runtime& runtime, const Setting& s) {
    if (!s.precision) return;
    const Component component = or_throw(runtime.registry().open(s.precision));
    const auto& api = component.table<kinora_precision>();
    const Options options = or_throw(Options::make(*component.spec, s.options));
    self_ = {api.create(host(), options.abi()), api.destroy};
    if (!self_) check(KINORA_ERROR_FAILED);
    links_.resize(1);
    check(api.link(self_.get(), links_.data()));
  }
  const std::vector<const kinora_link*>& links() const { return links_; }

 private:
  std::unique_ptr<void, void (*)(void*)> self_{nullptr, [](void*) {}};
  std::vector<const kinora_link*> links_;
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class BlockStep {
 public:
  BlockStep(Runtime& runtime, const Component& component, const Options& options, const Setting& setting,
            ChainOptions chain)
      : name_(setting.name),
        precision_(runtime, setting),
        network_(component, options, std::move(chain), precision_.links()) {}

  void run(const NamedTensors& in, const at::Tensor& target) {
    best_ = std::min(best_, seconds_of([&] {
                       for (auto& leaf : network_.chain().leaves()) leaf.tensor.mutable_grad().reset();
                       at::mse_loss(network_.forward(in)[0], target).backward();
                       network_.chain().leaves().front().tensor.grad().sum().item();  // waits for the device
                     }));
  }
  const std::string& name() const { return name_; }
  double seconds() const { return best_; }
  Model& network() { return network_; }

 private:
  std::string name_;
  Precision precision_;
  Model network_;
  double best_ = 1e30;
};

// Ten forwards, as a sampler calls them, with a launch for each kernel and by a graph: milliseconds of one.
json sampled(Model& network, const NamedTensors& in, const kinora_cuda_api& cuda, const at::Device& device,
             int repeat) {
  const at::NoGradGuard off;
  const Replays::Function once = [&](uint32_t, const NamedTensors& now) { return network.forward(now)[0]; };
  Replays replays(cuda, device.index(), once);
  double direct = 1e30, replayed = 1e30;
  for (int round = 0; round <= repeat; ++round) {
    const auto ten = [&](auto&& f) {
      return seconds_of([&] {
               for (int i = 0; i < 9; ++i) f(0, in);
               f(0, in).sum().template item<float>();
             }) /
             10;
    };
    direct = std::min(direct, ten(once));
    replayed = std::min(replayed, ten(replays));
  }
  return {{"ms", direct * 1e3}, {"graph_ms", replayed * 1e3}, {"graph_of_direct", replayed / direct}};
}

}  // namespace

json bench_block(Runtime& runtime, const BenchOptions& request) {
  const at::Device device = device_of(request.device);
  const int threads = request.threads, repeat = request.repeat;
  const auto dtype = device.is_cpu() ? at::kFloat : at::kBFloat16;
  const auto [T, H, W] = size_of(request.tokens);
  const auto component = or_throw(runtime.registry().open("model/dit"));
  const Options options = or_throw(Options::make(*component.spec, kBlock));
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  at::manual_seed(1);
  const auto drawn = [&](at::IntArrayRef shape) { return at::randn(shape).to(device, dtype); };
  const NamedTensors in = {{"latent", drawn({1, 16, T, H, W})},
                           {"timestep", at::full({1}, 0.5).to(device)},
                           {"text", drawn({1, 512, 1024})}};
  const at::Tensor target = drawn({1, 16, T, H, W});
  const kinora_cuda_api* cuda = cuda_library(device);
  std::vector<std::unique_ptr<BlockStep>> steps;
  for (const auto& setting : settings(cuda != nullptr))
    steps.push_back(std::make_unique<BlockStep>(runtime, component, options, setting,
                                                ChainOptions{.device = device, .dtype = dtype}));
  double product = 0;
  for (int round = 0; round <= repeat; ++round) {  // the first round also compiles kernels
    for (auto& step : steps) step->run(in, target);
    product = std::max(product, measured_peak_flops(device, dtype));
  }
  at::set_num_threads(before);
  const double flops = kTrainingStep * model_flops(component, options, in).total(),
               best = steps.front()->seconds();
  json out{{"device", device.str()},
           {"dtype", c10::toString(dtype)},
           {"tokens", T * H * W / 4},
           {"ms", best * 1e3},
           {"gflop", flops / 1e9},
           {"gflops", flops / best / 1e9},
           {"product_gflops", product / 1e9},
           {"of_product", flops / best / product}};
  for (size_t i = 1; i < steps.size(); ++i) {
    out[steps[i]->name() + "_ms"] = steps[i]->seconds() * 1e3;
    out[steps[i]->name() + "_of_bf16"] = steps[i]->seconds() / best;
  }
  if (cuda) out["forward"] = sampled(steps.front()->network(), in, *cuda, device, repeat);
  return out;
}

}  // namespace kinora::core
