#include "core/torch/training/bench_parallel.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/run/place.hpp"
#include "core/torch/context/mesh.hpp"
#include "core/torch/context/network.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using Work = std::function<void()>;

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// The ranks of this launch along one axis.
class Ranks {
 public:
  Ranks(Runtime& runtime, const std::string& axis) {
    const Place place = here();
    if (place.world == 1) {
      mesh_ = std::make_unique<MeshOwner>();
      return;
    }
    const Component component = or_throw(runtime.registry().open("collective/gloo"));
    const auto& api = component.table<kinora_collective>();
    const Options options = or_throw(Options::make(*component.spec, json::object()));
    collective_ = {made(api.create(host(), options.abi()), component.spec->id), api.destroy};
    kinora_world world{};
    world.struct_size = sizeof world;
    world.timeout_ms = static_cast<int32_t>(place.timeout_ms);
    world.rank = place.rank;
    world.size = place.world;
    world.rendezvous = place.rendezvous.c_str();
    check(api.join(collective_.get(), &world));
    mesh_ = std::make_unique<MeshOwner>(api, collective_.get(), place.rank,
                                        MeshOwner::Sizes{{axis, place.world}});
  }
  const kinora_mesh* mesh() const { return mesh_->abi(); }
  // All ranks come here before any goes on.
  void meet() const {
    if (mesh()->size > 1) Mesh<Tensor>(mesh()).group("world").barrier();
  }

 private:
  std::unique_ptr<void, void (*)(void*)> collective_{nullptr, [](void*) {}};
  std::unique_ptr<MeshOwner> mesh_;
};

// A strategy with its link.
class Strategy {
 public:
  Strategy(Runtime& runtime, const std::string& id, const json& options, const Ranks& ranks) {
    const Component component = or_throw(runtime.registry().open("parallel/" + id));
    const auto& api = component.table<kinora_strategy>();
    const Options complete = or_throw(Options::make(*component.spec, options));
    self_ = {made(api.create(host(), complete.abi(), ranks.mesh()), component.spec->id), api.destroy};
    const kinora_link* link = nullptr;
    called(api.link(self_.get(), &link), component.spec->id);
    if (link) links_.push_back(link);
  }
  const std::vector<const kinora_link*>& links() const { return links_; }

 private:
  std::unique_ptr<void, void (*)(void*)> self_{nullptr, [](void*) {}};
  std::vector<const kinora_link*> links_;
};

// One thing that is measured.
struct Measured {
  std::string name;
  int threads;
  bool alone;  // rank 0 does it, the others wait
  Work work;
  std::vector<double> seconds = {};
};

void measure(const Ranks& ranks, std::vector<Measured>& all, int repeat) {
  const bool first = ranks.mesh()->rank == 0;
  for (int round = -1; round < repeat; ++round)  // the first is not counted
    for (auto& m : all) {
      at::set_num_threads(m.threads);
      ranks.meet();
      const auto start = std::chrono::steady_clock::now();
      if (!m.alone || first) m.work();
      ranks.meet();
      if (round >= 0)
        m.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
}

double ratio(const Measured& a, const Measured& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.seconds.size(); ++i) ratios.push_back(a.seconds[i] / b.seconds[i]);
  return median(ratios);
}

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

json attention(Runtime& runtime, const Ranks& ranks, const json& request) {
  const int64_t tokens = request.at("tokens");
  const int threads = request.at("threads"), world = static_cast<int>(ranks.mesh()->size);
  const Strategy ulysses(runtime, "cp-ulysses", {}, ranks), ring(runtime, "cp-ring", {}, ranks),
      waiting(runtime, "cp-ring", {{"overlap", false}}, ranks);
  OneAttention alone(tokens, {}), exchanged(tokens, ulysses.links()), overlapped(tokens, ring.links()),
      in_turn(tokens, waiting.links());
  std::vector<Measured> all{{"one_process", threads * world, true, [&] { alone(); }},
                            {"ulysses", threads, false, [&] { exchanged(); }},
                            {"ring", threads, false, [&] { overlapped(); }},
                            {"ring_without_overlap", threads, false, [&] { in_turn(); }}};
  measure(ranks, all, request.at("repeat"));
  json out{{"ranks", world}, {"tokens", tokens}, {"threads_a_rank", threads}};
  for (const auto& m : all) out[m.name + "_ms"] = median(m.seconds) * 1e3;
  out["ulysses_of_one_process"] = ratio(all[1], all[0]);
  out["ring_of_one_process"] = ratio(all[2], all[0]);
  out["ring_of_ring_without_overlap"] = ratio(all[2], all[3]);
  out["within"] = out["ulysses_of_one_process"] <= 1.05 && out["ring_of_one_process"] <= 1.15;
  return out;
}

// A step of a small model with a strategy that has nobody to share with, by one without.
json overhead(Runtime& runtime, const Ranks& alone, const json& request) {
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
  std::vector<std::unique_ptr<Strategy>> strategies;
  std::vector<std::unique_ptr<Network>> networks;
  networks.push_back(std::make_unique<Network>(dit, options, ChainOptions{}));
  std::vector<Measured> all;
  const NamedTensors in = {{"latent", at::randn({1, 4, 4, 16, 16})},
                           {"timestep", at::full({1}, 0.5)},
                           {"text", at::randn({1, 16, 64})}};
  const auto step_of = [&in](Network& network) {
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
    strategies.push_back(std::make_unique<Strategy>(runtime, name, json{}, alone));
    networks.push_back(std::make_unique<Network>(dit, options, ChainOptions{}, strategies.back()->links()));
    all.push_back({name, 1, false, step_of(*networks.back())});
  }
  measure(alone, all, 10 * request.at("repeat").get<int>());
  json out{{"none_ms", median(all[0].seconds) * 1e3}};
  bool within = true;
  for (size_t i = 1; i < all.size(); ++i) {
    out[all[i].name] = ratio(all[i], all[0]) - 1;
    within = within && out[all[i].name] < 0.02;
  }
  out["within"] = within;
  return out;
}

}  // namespace

json bench_parallel(Runtime& runtime, const json& request) {
  const int before = at::get_num_threads();
  const Ranks ranks(runtime, "cp");
  json out = json::object();
  if (ranks.mesh()->size == 1) {
    out["overhead"] = overhead(runtime, ranks, request);
  } else {
    out["attention"] = attention(runtime, ranks, request);
  }
  at::set_num_threads(before);
  return ranks.mesh()->rank == 0 ? out : json::object();
}

}  // namespace kinora::core
