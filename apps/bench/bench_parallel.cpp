// The cost of strategies, on several ranks or on one.
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "apps/bench/bench_ranks.hpp"
#include "apps/bench/tensors.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
// One attention of 8 heads of 64 over a square of tokens, forward and backward, behind these links.
class OneAttention {
 public:
  OneAttention(int64_t tokens, const std::vector<const kinora_link*>& links) : chain_({.seed = 1}, links) {
    chain_.ready();
    const Context<Tensor> context(chain_.head());
    const int64_t side = std::llround(std::sqrt(static_cast<double>(tokens)));
    const Tensor local = context.sequence(at::zeros({1, side * side, 1}), 1, side, side, seq_);
    at::manual_seed(1);
    for (auto* t : {&q_, &k_, &v_}) *t = at::randn({1, local.size(1), 8, 64}).set_requires_grad(true);
  }
  void operator()() {
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    chain_.begin(pass);
    for (auto* t : {&q_, &k_, &v_}) t->mutable_grad().reset();
    Attention<Tensor> how;
    how.name = "bench";
    how.q_seq = how.kv_seq = seq_;
    how.scale = 0.125;
    const Tensor out = Context<Tensor>(chain_.head()).attention(q_, k_, v_, how);
    out.backward(at::ones_like(out));
  }

 private:
  Chain chain_;
  kinora_seq seq_ = 0;
  Tensor q_, k_, v_;
};

json attention(Runtime& runtime, const BenchRanks& ranks, const BenchOptions& request) {
  const int64_t tokens = request.quick ? 256 : 4096;
  const int threads = request.threads, world = static_cast<int>(ranks.size());
  const BenchStrategy ulysses(runtime, "cp-ulysses", {}, ranks), ring(runtime, "cp-ring", {}, ranks),
      waiting(runtime, "cp-ring", {{"overlap", false}}, ranks);
  OneAttention alone(tokens, {}), exchanged(tokens, ulysses.links()), overlapped(tokens, ring.links()),
      in_turn(tokens, waiting.links());
  std::vector<Measured> all{{"one_process", threads * world, true, [&] { alone(); }},
                            {"ulysses", threads, false, [&] { exchanged(); }},
                            {"ring", threads, false, [&] { overlapped(); }},
                            {"ring_without_overlap", threads, false, [&] { in_turn(); }}};
  measure(ranks, all, request.repeat);
  json out{{"ranks", world}, {"tokens", tokens}, {"threads_a_rank", threads}};
  for (const auto& m : all) out[m.name + "_ms"] = median(m.seconds) * 1e3;
  out["ulysses_of_one_process"] = ratio(all[1], all[0]);
  out["ring_of_one_process"] = ratio(all[2], all[0]);
  out["ring_of_ring_without_overlap"] = ratio(all[2], all[3]);
  out["within"] = out["ulysses_of_one_process"] <= 1.05 && out["ring_of_one_process"] <= 1.15;
  return out;
}

double best(const Measured& m) { return *std::min_element(m.seconds.begin(), m.seconds.end()); }

// Ratio of a small model's step with a strategy on a group of one rank to a step without it.
json overhead(Runtime& runtime, const BenchRanks& alone, const BenchOptions& request) {
  const Component dit = or_throw(runtime.registry().open("model/dit"));
  const Options options = or_throw(Options::make(*dit.spec, {{"in_channels", 4},
                                                             {"out_channels", 4},
                                                             {"text_size", 64},
                                                             {"layers", 2},
                                                             {"heads", 4},
                                                             {"head_size", 32},
                                                             {"adaln_lora", 16}}));
  const std::vector<std::string> names = {"ddp",   "fsdp", "tp",           "cp-ulysses", "cp-ring",
                                          "cp-2d", "pp",   "stdit-hybrid", "balanced-sp"};
  std::vector<std::unique_ptr<BenchStrategy>> strategies;
  std::vector<std::unique_ptr<Model>> networks;
  networks.push_back(std::make_unique<Model>(dit, options, ChainOptions{}));
  std::vector<Measured> all;
  const NamedTensors in = {{"latent", at::randn({1, 4, 4, 16, 16})},
                           {"timestep", at::full({1}, 0.5)},
                           {"text", at::randn({1, 16, 64})}};
  const auto step_of = [&in](Model& network) {
    return [&network, &in] {
      kinora_pass pass{};
      pass.struct_size = sizeof pass;
      network.chain().begin(pass);
      for (auto& leaf : network.chain().leaves()) leaf.tensor.mutable_grad().reset();
      network.forward(in).at(0).square().mean().backward();
      network.chain().reduce();
    };
  };
  all.push_back({"none", 1, false, step_of(*networks[0])});
  for (const auto& name : names) {
    strategies.push_back(std::make_unique<BenchStrategy>(runtime, name, json{}, alone));
    networks.push_back(std::make_unique<Model>(dit, options, ChainOptions{}, strategies.back()->links()));
    all.push_back({name, 1, false, step_of(*networks.back())});
  }
  measure(alone, all, 10 * request.repeat);
  json out{{"none_ms", median(all[0].seconds) * 1e3}};
  bool within = true;
  for (size_t i = 1; i < all.size(); ++i) {
    out[all[i].name] = best(all[i]) / best(all[0]) - 1;
    within = within && out[all[i].name] < 0.02;
  }
  out["within"] = within;
  return out;
}

}  // namespace

json bench_parallel(Runtime& runtime, const BenchOptions& request) {
  const int before = at::get_num_threads();
  const BenchRanks ranks(runtime);
  json out = json::object();
  if (ranks.size() == 1) {
    out["overhead"] = overhead(runtime, ranks, request);
  } else {
    if (ranks.size() == 2) {
      out["attention"] = attention(runtime, ranks, request);
      out["spatial_temporal"] = bench_spatial_temporal(runtime, ranks, request);
    }
    out["teacher_forcing"] = bench_teacher_forcing(runtime, ranks, request);
    out["schedules"] = bench_schedules(runtime, ranks, request);
    out["conditioning"] = bench_conditioning(runtime, ranks, request);
  }
  at::set_num_threads(before);
  return ranks.rank() == 0 ? out : json::object();
}

}  // namespace kinora::core
