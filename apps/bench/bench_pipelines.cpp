// Benchmarks of pipelines with one stage per rank: schedules, and ways to provide conditioning on every
// stage.
#include <numeric>

#include <ATen/ATen.h>

#include "apps/bench/bench_ranks.hpp"
#include "apps/bench/tensors.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

constexpr int64_t kMicro = 8;

// Variants of running one model's step in a pipeline, measured in turns.
class Ways {
 public:
  Ways(Runtime& runtime, const BenchRanks& ranks, const BenchOptions& request)
      : runtime_(runtime), ranks_(ranks), request_(request) {}
  void add(const std::string& name, const json& how, const std::string& model, const json& options,
           const Tensor& text) {
    strategies_.push_back(std::make_unique<BenchStrategy>(runtime_, "pp", how, ranks_));
    steps_.push_back(
        std::make_unique<BenchStep>(runtime_, model, options, Frames{}, *strategies_.back(), text));
    const Tensor latent = at::ones({1, 4, 2, 16, 16});
    measured_.push_back({.name = name,
                         .threads = request_.threads,
                         .work = [step = steps_.back().get(), latent] { (*step)(latent, 0, kMicro); },
                         .metered = true});
  }
  const std::vector<Measured>& taken() {
    measure(ranks_, measured_, request_.repeat);
    return measured_;
  }

 private:
  Runtime& runtime_;
  const BenchRanks& ranks_;
  const BenchOptions& request_;
  std::vector<std::unique_ptr<BenchStrategy>> strategies_;
  std::vector<std::unique_ptr<BenchStep>> steps_;
  std::vector<Measured> measured_;
};

double mean(const std::vector<double>& of) {
  return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
}

}  // namespace

json bench_schedules(Runtime& runtime, const BenchRanks& ranks, const BenchOptions& request) {
  const json dit{{"in_channels", 4}, {"out_channels", 4}, {"text_size", 64}, {"layers", 16},
                 {"heads", 4},       {"head_size", 32},   {"adaln_lora", 16}};
  Ways ways(runtime, ranks, request);
  for (const char* schedule : {"gpipe", "1f1b", "interleaved"})
    ways.add(schedule, {{"schedule", schedule}}, "dit", dit, at::ones({1, 16, 64}));
  const auto& all = ways.taken();
  json out{{"ranks", ranks.size()}, {"microbatches", kMicro}};
  for (const auto& m : all) {
    const double stages = m.name == "interleaved" ? 2 : 1;
    out[m.name] = {{"ms", median(m.seconds) * 1e3},
                   {"most_bytes", ranks.of_all(static_cast<double>(m.most))},
                   {"idle", mean(ranks.of_all(median(m.idle)))},
                   {"idle_by_formula", static_cast<double>(ranks.size() - 1) / (stages * kMicro)}};
  }
  out["1f1b_of_gpipe"] = ratio(all[1], all[0]);
  out["interleaved_of_1f1b"] = ratio(all[2], all[1]);
  return out;
}

json bench_conditioning(Runtime& runtime, const BenchRanks& ranks, const BenchOptions& request) {
  const json wan{{"in_channels", 4},         {"out_channels", 4},        {"text_dim", 512}, {"num_layers", 8},
                 {"num_attention_heads", 4}, {"attention_head_dim", 32}, {"ffn_dim", 256}};
  Ways ways(runtime, ranks, request);
  for (const char* conditioning : {"recompute", "send"})
    ways.add(conditioning, {{"conditioning", conditioning}}, "wan", wan, at::ones({1, 256, 512}));
  const auto& all = ways.taken();
  json out{{"ranks", ranks.size()}, {"microbatches", kMicro}};
  for (const auto& m : all)
    out[m.name] = {{"ms", median(m.seconds) * 1e3},
                   {"bytes_sent", ranks.of_all(static_cast<double>(m.bytes))},
                   {"most_bytes", ranks.of_all(static_cast<double>(m.most))}};
  out["send_of_recompute"] = ratio(all[1], all[0]);
  return out;
}

}  // namespace kinora::core
