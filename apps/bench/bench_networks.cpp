// Benchmarks of networks in one process, training, sampling and a tokenizer, against a peer; and the entry
// point of the library.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <sys/resource.h>

#include "apps/bench/benchmarks.hpp"
#include "core/runtime/runtime.hpp"
#include "core/torch/context/meter_link.hpp"
#include "core/torch/context/network.hpp"
#include "core/torch/context/throughput.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/abi/plugin.h"
#include "plugins/jobs/training/norms.hpp"
#include "plugins/jobs/training/optimizer.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using Work = std::function<void()>;

// The benchmark's DiT: 2048 tokens of width 256 in 6 layers, text of 64 tokens; quick: 32 tokens.
const json kDit = {{"in_channels", 16}, {"out_channels", 16}, {"layers", 6},      {"heads", 4},
                   {"head_size", 64},   {"mlp_ratio", 4},     {"adaln_lora", 64}, {"text_size", 256}};
const json kWan = {{"base_dim", 32}, {"z_dim", 16}};

struct Best {
  double seconds = 1e30, cpu = 1e30;
  void take(const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    const auto cpu_start = std::clock();
    work();
    cpu = std::min(cpu, static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
    seconds =
        std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  // With one thread, processor time excludes other work on the machine. With several, it says nothing about
  // speed.
  double of(int threads) const { return threads == 1 ? cpu : seconds; }
};

// One measured operation, and its floating-point operations (0: not counted).
struct NetworkTimes {
  std::string name;
  Work work;
  double flops = 0;
  Best best;
};

json ran(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string line, last;
  for (int c; pipe && (c = std::fgetc(pipe.get())) != EOF;) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    last = line;
    line.clear();
  }
  const auto said = json::parse(last, nullptr, false);
  if (!said.is_object())
    raise(KINORA_ERROR_FAILED, "bench: the peer `{}` printed no JSON object as its last line; run it by hand",
          command);
  return said;
}

double peak_rss() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) * 1024;
}

Options options_of(const ComponentSpec& spec, const json& given) {
  return or_throw(Options::make(spec, given));
}

class Dit {
 public:
  Dit(Runtime& runtime, at::IntArrayRef latent)
      : component_(or_throw(runtime.registry().open("model/dit"))),
        options_(options_of(*component_.spec, kDit)),
        network_(component_, options_, ChainOptions{}),
        optimizer_(or_throw(runtime.registry().open("optimizer/adamw")),
                   options_of(*or_throw(runtime.registry().open("optimizer/adamw")).spec, json::object()),
                   network_.chain().parameters(), network_.chain().leaves(), usual_decay(0.01)) {
    at::manual_seed(1);
    in_ = {
        {"latent", at::randn(latent)}, {"timestep", at::full({1}, 0.5)}, {"text", at::randn({1, 64, 256})}};
    target_ = at::randn(latent);
    flops_ = model_flops(component_, options_, in_);
  }
  double flops() const { return flops_; }
  void call() {
    const at::NoGradGuard off;
    network_.forward(in_);
  }
  void step() {
    auto& leaves = network_.chain().leaves();
    optimizer_.zero_grad();
    at::mse_loss(network_.forward(in_)[0], target_).backward();
    network_.chain().reduce();
    optimizer_.step(1e-4, clip_factor(gradient_norm(leaves), 1));
  }

 private:
  Component component_;
  Options options_;
  Network network_;
  Optimizer optimizer_;
  NamedTensors in_;
  Tensor target_;
  double flops_ = 0;
};

std::vector<NetworkTimes> measured(Runtime& runtime, const std::string& what, bool quick) {
  if (what == "vae") {
    const auto component = or_throw(runtime.registry().open("tokenizer/wan"));
    const Options options = options_of(*component.spec, kWan);
    const auto network = std::make_shared<Network>(component, options, ChainOptions{});
    MetaNetwork counted(component, options);
    at::manual_seed(1);
    const int64_t latents = quick ? 2 : 3, side = quick ? 4 : 16;
    const Tensor video = at::rand({1, 3, 4 * latents - 3, 8 * side, 8 * side}) * 2 - 1,
                 latent = at::randn({1, 16, latents, side, side});
    const auto quietly = [](const auto& f) {
      return [f] {
        const at::NoGradGuard off;
        f();
      };
    };
    return {{"encode", quietly([=] { network->encode(video); }), counted.encode(video).total(), {}},
            {"decode", quietly([=] { network->decode(latent); }), counted.decode(latent).total(), {}}};
  }
  const int64_t side = quick ? 8 : 32;
  const auto dit = std::make_shared<Dit>(runtime, std::vector<int64_t>{1, 16, side / 4, side, side});
  if (what == "sample") return {{"denoiser", [dit] { dit->call(); }, dit->flops(), {}}};
  return {{"step", [dit] { dit->step(); }, kTrainingStep * dit->flops(), {}}};
}

// ours / theirs by the same clock, from the best of all rounds.
void compare(json& line, const std::string& name, const Best& ours, int threads,
             const std::vector<json>& said) {
  for (const auto& [who, first] : said.front().items()) {
    if (!first.is_object() || (first.contains("what") && first["what"] != name)) continue;
    double best = 1e30;
    for (const auto& round : said)
      best = std::min(best, round.at(who).at(threads == 1 ? "cpu_seconds" : "seconds").get<double>());
    line["of_" + who] = ours.of(threads) / best;
    line[who + "_ms"] = best * 1e3;
  }
}

}  // namespace

json bench_networks(Runtime& runtime, const json& request) {
  const std::string what = request.at("what"), peer = request.value("peer", "");
  const int threads = request.at("threads"), repeat = request.at("repeat");
  const bool quick = request.value("quick", false);
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  auto all = measured(runtime, what, quick);
  const Tensor a = at::randn({2048, 2048}), b = at::randn({2048, 2048});
  Best product;
  std::vector<json> said;
  for (auto& m : all) m.work();  // warms up allocations and libtorch's choices
  for (int round = 0; round < repeat; ++round) {
    for (auto& m : all)
      for (int i = 0; i < 3; ++i) m.best.take(m.work);
    product.take([&] { at::mm(a, b); });
    if (!peer.empty()) said.push_back(ran(peer + " " + what + " " + std::to_string(threads)));
  }
  at::set_num_threads(before);
  const double rate = 2 * std::pow(2048.0, 3) / product.of(threads);
  json out{{"threads", threads},
           {"clock", threads == 1 ? "processor" : "wall"},
           {"product_gflops", rate / 1e9},
           {"peak_rss", peak_rss()}};
  for (const auto& m : all) {
    json line{{"ms", m.best.of(threads) * 1e3}};
    if (m.flops > 0) {
      const double flops = m.flops / m.best.of(threads);
      line.update({{"gflop", m.flops / 1e9}, {"gflops", flops / 1e9}, {"of_product", flops / rate}});
    }
    if (!said.empty()) compare(line, m.name, m.best, threads, said);
    out[m.name] = line;
  }
  if (!said.empty()) out["peer_peak_rss"] = said.front().value("peak_rss", 0.0);
  return out;
}

}  // namespace kinora::core

// Entry point of the library for `kinora bench` and `kinora plan`.
extern "C" KINORA_EXPORT void kinora_bench_open(const kinora_host*) {
  using namespace kinora::core;
  register_tool("bench", plain<bench_networks, Runtime, const json>);
  register_tool("bench_block", plain<bench_block, Runtime, const json>);
  register_tool("bench_parallel", plain<bench_parallel, Runtime, const json>);
}
