#include "plugins/engines/common/balance/trial.hpp"

#include <ctime>
#include <map>
#include <numbers>

#include "plugins/engines/common/balance/bound.hpp"
#include "plugins/engines/common/balance/estimate.hpp"
#include "plugins/engines/common/balance/rebalance.hpp"

namespace kinora {
namespace {

using balance::Node;
using balance::Stage;

template <class T>
T one_of(std::mt19937& random, std::initializer_list<T> of) {
  return of.begin()[random() % of.size()];
}
double log_uniform(std::mt19937& random, double low, double high) {
  return low * std::pow(high / low, std::uniform_real_distribution<double>(0, 1)(random));
}

// Processor time of this thread: independent of other load on the machine.
double processor_milliseconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

Stage random_stage(std::mt19937& random, uint32_t index, bool gpus) {
  Stage s;
  if (index > 0) {
    s.from.push_back(random() % 4 ? index - 1 : static_cast<uint32_t>(random() % index));
    const auto second = static_cast<uint32_t>(random() % index);
    if (random() % 6 == 0 && second != s.from[0]) s.from.push_back(second);
  }
  s.seconds = log_uniform(random, 0.05, 20);
  s.out = random() % 3 ? 1 : log_uniform(random, 0.3, 12);
  s.need.cores = one_of(random, {0.25, 0.5, 1.0, 1.0, 2.0, 4.0, 8.0});
  s.need.memory = s.need.cores * one_of(random, {0.5, 1.0, 2.0});  // GiB; a node has 4 a core
  if (gpus && random() % 3 == 0) {
    s.need.gpus = one_of(random, {0.125, 0.25, 0.5, 1.0, 1.0});
    s.need.cores = one_of(random, {0.25, 0.5, 1.0, 2.0});
    if (random() % 4 == 0) s.need.nvdec = 0.25;
  }
  return s;
}

// The service time of a stage at a simulated time, relative to its mean.
double wander(const Simulation& how, size_t stage, size_t slower, double now) {
  const double phase = 1.7 * static_cast<double>(stage),
               wave = how.period * (1 + 0.13 * static_cast<double>(stage % 5));
  const double factor = 1 + how.drift * std::sin(2 * std::numbers::pi * now / wave + phase);
  return factor * (how.step_at > 0 && stage == slower && now >= how.step_at ? how.step : 1);
}

// The workers that run, and those that are starting.
class Crew {
 public:
  explicit Crew(std::vector<int64_t> workers) : up_(workers), plan_(std::move(workers)) {}
  void follow(const balance::Plan& from, const balance::Plan& to, double ready) {
    const auto before = from.by_node(), after = to.by_node();
    for (size_t node = 0; node < after.size(); ++node)
      for (size_t i = 0; i < plan_.size(); ++i) {
        const int64_t change = after[node][i] - before[node][i];
        if (change > 0) coming_.emplace(ready, std::pair(i, change));
        if (change < 0) up_[i] += change;
      }
    plan_ = to.workers;
  }
  const std::vector<int64_t>& at(double now) {
    while (!coming_.empty() && coming_.begin()->first <= now) {
      up_[coming_.begin()->second.first] += coming_.begin()->second.second;
      coming_.erase(coming_.begin());
    }
    for (size_t i = 0; i < up_.size(); ++i) up_[i] = std::clamp<int64_t>(up_[i], 0, plan_[i]);
    return up_;
  }

 private:
  std::vector<int64_t> up_, plan_;
  std::multimap<double, std::pair<size_t, int64_t>> coming_;
};

// The measurement of one worker of each kind over an interval: the mean over the samples that ended, if any
// did.
bool measure(std::mt19937& random, double noise, double seconds, double samples, double now,
             balance::Estimate& into) {
  const double n = std::floor(samples) +
                   (std::uniform_real_distribution<double>(0, 1)(random) < samples - std::floor(samples));
  if (n < 1) return false;
  into.add(seconds * std::max(0.1, 1 + noise / std::sqrt(n) * std::normal_distribution<double>()(random)), n,
           now);
  return true;
}

// The busiest stage, for which all others wait.
size_t slowest(const std::vector<double>& work, const std::vector<int64_t>& workers) {
  size_t out = 0;
  for (size_t i = 1; i < work.size(); ++i)
    if (static_cast<double>(workers[i]) * work[out] < static_cast<double>(workers[out]) * work[i]) out = i;
  return out;
}

}  // namespace

Trial random_trial(std::mt19937& random, int64_t n_nodes) {
  for (;;) {
    Trial out;
    const bool gpus = random() % 3 != 0;
    const size_t kinds = 1 + random() % 3;
    for (size_t k = 0; k < kinds; ++k) {
      Node node;
      node.cores = one_of(random, {16.0, 32.0, 64.0, 96.0, 128.0, 192.0});
      node.memory = 4 * node.cores;
      node.gpus = gpus && (k == 0 || random() % 2) ? one_of<int64_t>(random, {1, 4, 8, 8}) : 0;
      node.nvdec = static_cast<double>(node.gpus);
      const int64_t n = k + 1 == kinds ? n_nodes - static_cast<int64_t>(out.nodes.size())
                                       : static_cast<int64_t>(random() % static_cast<uint32_t>(n_nodes));
      for (int64_t i = 0; i < n && static_cast<int64_t>(out.nodes.size()) < n_nodes; ++i)
        out.nodes.push_back(node);
    }
    const size_t stages = 2 + random() % 11;
    for (uint32_t i = 0; i < stages; ++i) out.stages.push_back(random_stage(random, i, gpus));
    if (n_nodes >= 64 && random() % 8 == 0) out.stages[random() % stages].need.whole_node = true;
    if (random() % 4 == 0) {  // a writer that needs its input in order, and is fast enough for that
      Stage& last = out.stages.back();
      last.workers = 1;
      last.need = {};
      last.seconds = 0.001 / static_cast<double>(n_nodes);
    }
    if (balance::place(out.stages, out.nodes).throughput > 0) return out;
  }
}

PlacedTrial place_trial(const Trial& trial, bool exact) {
  PlacedTrial out;
  const double start = processor_milliseconds();
  const auto plan = balance::place(trial.stages, trial.nodes);
  out.milliseconds = processor_milliseconds() - start;
  out.throughput = plan.throughput;
  out.bound_kind = "exact";
  if (const auto best = exact ? exact_optimum(trial.stages, trial.nodes, 300000) : std::nullopt) {
    out.bound = *best;
  } else {
    out.bound_kind = "whole-workers";
    out.bound = whole_worker_bound(trial.stages, trial.nodes);
    if (out.throughput >= 0.99 * out.bound) return out;
    out.bound_kind = "whole-on-nodes";
    out.bound = whole_node_bound(trial.stages, trial.nodes, out.throughput, out.bound);
  }
  return out;
}

Simulated simulate(Trial trial, const Simulation& how, uint32_t seed) {
  std::mt19937 random(seed);
  const double rate = whole_worker_bound(trial.stages, trial.nodes);
  for (Stage& s : trial.stages) s.seconds *= std::min(1.0, rate / how.inputs);
  const size_t n = trial.stages.size(), slower = random() % n;
  const auto samples = [&] {  // of each stage, per input of the source
    auto unit = trial.stages;
    for (auto& s : unit) s.seconds = 1;
    return balance::work_of(unit);
  }();
  std::vector<balance::Estimate> seconds(n);
  std::vector<double> busy(n);  // seconds since a sample ended there, or since the stage got work
  auto known = trial.stages, real = trial.stages;
  for (size_t i = 0; i < n; ++i) known[i].seconds = 1 / std::max(1e-9, samples[i]), known[i].error = 0;
  balance::Plan plan = balance::place(known, trial.nodes);  // equal work: nothing has been measured yet
  Crew crew(plan.workers);
  Simulated out;
  double done = 0, best = 0, done_after = 0, best_after = 0;
  double optimum = 0;
  for (int second = 0; second < static_cast<int>(how.seconds); ++second) {
    const double now = second;
    for (size_t i = 0; i < n; ++i) real[i].seconds = trial.stages[i].seconds * wander(how, i, slower, now);
    const auto work = balance::work_of(real);
    const double passed = balance::throughput(work, crew.at(now));
    if (second % 5 == 0) optimum = whole_worker_bound(real, trial.nodes);
    const bool settled =
        now >= how.settle && !(how.step_at > 0 && now >= how.step_at && now < how.step_at + how.settle);
    done += passed, best += optimum;
    if (settled) done_after += passed, best_after += optimum;
    const size_t waited_for = slowest(work, crew.at(now));
    for (size_t i = 0; i < n; ++i) {
      const bool ended = measure(random, how.noise, real[i].seconds, passed * samples[i], now, seconds[i]);
      busy[i] = ended || i != waited_for ? 0 : std::min(real[i].seconds, busy[i] + 1);
      if (busy[i] > 0) seconds[i].at_least(busy[i]);
      if (seconds[i].known()) known[i].seconds = seconds[i].value(), known[i].error = seconds[i].error();
    }
    if (seconds[waited_for].known()) {
      auto next = balance::rebalance(known, trial.nodes, plan, {.start = how.start});
      if (next.started + next.stopped > 0) {
        ++out.moves;
        if (settled) ++out.moves_after_settling;
        crew.follow(plan, next.plan, now + how.start);
      }
      plan = std::move(next.plan);
    }
  }
  out.of_bound = done / best;
  out.after_settling = done_after / best_after;
  return out;
}

}  // namespace kinora
