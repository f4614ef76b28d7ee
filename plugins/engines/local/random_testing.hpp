// Random graphs of random stages, and their outcomes, for tests of engines.
#pragma once
#include <array>
#include <random>
#include <set>
#include <tuple>

#include "plugins/engines/local/engine_testing.hpp"

namespace kinora::local {

struct RandomStages {
  std::mutex mutex;
  std::set<std::string> born;  // keys of the samples that stages have made
  std::deque<std::vector<std::string>>
      orders;          // keys that each ordered stage has seen, once each: an input may be tried again
  bool graph = false;  // the output of a stage goes to several
  size_t scale = 1;    // of the fields that stages make
};

// 1 to 5 stages that pass, drop, fail, consume and multiply samples, each by its key alone. delay_ms: the
// time that a stage takes, by a hash of the sample.
inline void add_random_stages(Pipeline& p, std::mt19937& random, RandomStages& of,
                              const std::function<int(size_t)>& delay_ms) {
  const size_t n = 1 + random() % 5;
  std::vector<int> takers(n);
  for (size_t s = 0; s < n; ++s) {
    std::vector<uint32_t> from;
    for (uint32_t i = 0; i < s; ++i)
      if (random() % 2) from.push_back(i);
    if (from.empty() && s > 0) from.push_back(static_cast<uint32_t>(random() % s));
    for (const uint32_t f : from) of.graph = ++takers[f] > 1 || of.graph;
    const uint32_t salt = random();
    auto& order = of.orders.emplace_back();
    auto& act = p.add("s" + std::to_string(s), from, nullptr);
    act.ordered = random() % 4 == 0;
    act.cores = std::array<double, 4>{0, 0.3, 1, 2}[random() % 4];
    if (!act.ordered) act.workers = random() % 4;
    act.batch = random() % 3 == 0 ? random() % 9 : 0;
    act.process = [&of, &act, &order, salt, delay_ms](Sample in, const Emit& emit, const kinora::Run&) {
      if (act.ordered && std::find(order.begin(), order.end(), in.key()) == order.end())
        order.emplace_back(in.key());
      const size_t h = std::hash<std::string>{}(std::string(in.key()) + std::to_string(salt));
      if (const int ms = delay_ms(h); ms > 0) sleep_ms(ms);
      if (h % 11 == 0) throw Error(h % 2 && !act.ordered ? KINORA_ERROR_IO : KINORA_ERROR_DATA, "no");
      if (h % 11 == 1) return emit.drop(std::move(in), "x", 1);
      if (h % 11 == 2) return;
      for (size_t i = 0; i < h % 5 / 2 * 2; ++i) {
        Sample child = in.clone(std::string(in.key()) + "." + act.name + "-" + std::to_string(i));
        child.set("mp4", std::vector<uint8_t>(h % 9000 * of.scale));
        emit.made_of(std::array{in.key()});
        {
          const std::lock_guard lock(of.mutex);
          of.born.emplace(child.key());
        }
        emit(std::move(child));
      }
      if (h % 3) emit(std::move(in));
    };
  }
}

using Ends =
    std::vector<std::tuple<std::string, uint32_t, std::string, std::string, double, int32_t, bool, bool>>;

inline Ends ends_of(const Pipeline& p) {
  Ends out;
  for (const auto& [key, o] : p.outcomes)
    out.emplace_back(key, o.end, o.stage, o.reason, o.score, o.status, o.consumed, o.made);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace kinora::local
