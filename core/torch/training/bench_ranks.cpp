#include "core/torch/training/bench_ranks.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/options.hpp"
#include "core/plugin/host.hpp"
#include "core/run/call.hpp"
#include "core/run/place.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

BenchRanks::BenchRanks(Runtime& runtime, const std::string& axis) {
  const Place place = here();
  if (place.alone()) {
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
  mesh_ =
      std::make_unique<MeshOwner>(api, collective_.get(), place.rank, MeshOwner::Sizes{{axis, place.world}});
  group();
}

void BenchRanks::meet() const {
  if (size() > 1) Group<at::Tensor>(&group()).barrier();
}

BenchStrategy::BenchStrategy(Runtime& runtime, const std::string& id, const json& options,
                             const BenchRanks& ranks) {
  const Component component = or_throw(runtime.registry().open("parallel/" + id));
  const auto& api = component.table<kinora_strategy>();
  const Options complete = or_throw(Options::make(*component.spec, options));
  self_ = {made(api.create(host(), complete.abi(), ranks.mesh()), component.spec->id), api.destroy};
  const kinora_link* link = nullptr;
  called(api.link(self_.get(), &link), component.spec->id);
  if (link) links_.push_back(link);
}

void measure(const BenchRanks& ranks, std::vector<Measured>& all, int repeat) {
  for (int round = -1; round < repeat; ++round)
    for (auto& m : all) {
      at::set_num_threads(m.threads);
      ranks.meet();
      const int64_t before = ranks.sent();
      const auto start = std::chrono::steady_clock::now();
      if (!m.alone || ranks.rank() == 0) m.work();
      m.bytes = ranks.sent() - before;
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

}  // namespace kinora::core
