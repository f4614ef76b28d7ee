// Benchmarks of networks in one process, training, sampling and a tokenizer, against a peer.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <sys/resource.h>

#include "apps/bench/tensors.hpp"
#include "core/runtime/runtime.hpp"
#include "core/torch/network/meter_link.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/throughput.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "plugins/jobs/train/small_dit.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using Work = std::function<void()>;

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
    throw Error(KINORA_ERROR_FAILED,
                "bench: the peer `" + command + "` printed no JSON object as its last line; run it by hand");
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

std::vector<NetworkTimes> measured(Runtime& runtime, const std::string& what, bool quick) {
  if (what == "vae") {
    const auto component = or_throw(runtime.registry().open("tokenizer/wan"));
    const Options options = options_of(*component.spec, kWan);
    const auto network = std::make_shared<Tokenizer>(component, options, ChainOptions{});
    at::manual_seed(1);
    const int64_t latents = quick ? 2 : 3, side = quick ? 4 : 16;
    const Tensor video = at::rand({1, 3, 4 * latents - 3, 8 * side, 8 * side}) * 2 - 1,
                 latent = at::randn({1, 16, latents, side, side});
    const auto flops = tokenizer_flops(component, options, video, latent);
    const auto quietly = [](const auto& f) {
      return [f] {
        const at::NoGradGuard off;
        f();
      };
    };
    return {{"encode", quietly([=] { network->encode(video); }), flops.encode->total(), {}},
            {"decode", quietly([=] { network->decode(latent); }), flops.decode->total(), {}}};
  }
  const auto dit = std::make_shared<SmallDit>(runtime, quick ? 8 : 32);
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

json bench_networks(Runtime& runtime, const std::string& what, const BenchOptions& request) {
  const auto& peer = request.peer;
  const int threads = request.threads;
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  auto all = measured(runtime, what, request.quick);
  const Tensor a = at::randn({2048, 2048}), b = at::randn({2048, 2048});
  Best product;
  std::vector<json> said;
  for (auto& m : all) m.work();  // warms up allocations and libtorch's choices
  for (int round = 0; round < request.repeat; ++round) {
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
