// The balancer's input: stages, their graph, the resources of a worker, and nodes; and what they reach on one
// machine.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace kinora::balance {

// The resources of one worker. gpus: a fraction of one device, or a whole number of devices.
struct Need {
  double cores = 1, gpus = 0, memory = 0, nvdec = 0, nvenc = 0;
  bool whole_node = false;  // it occupies a node exclusively
};

struct Stage {
  std::vector<uint32_t> from;  // earlier stages whose output it takes; none: the source
  double seconds = 1;          // of one worker for one sample
  double out = 1;              // samples that it emits per sample taken, to each stage that takes its output
  Need need{};
  int64_t workers = 0;  // exact number (1 for an ordered stage); 0: the best number
  double error = 0;     // standard error of `seconds`, relative to it
};

struct Node {
  double cores = 0, memory = 0;
  int64_t gpus = 0;
  double nvdec = 0, nvenc = 0;
  bool operator==(const Node&) const = default;
};

// The counted resources, in one order.
constexpr size_t kResources = 5;
inline double of(const Node& n, size_t resource) {
  const double all[kResources] = {n.cores, n.memory, static_cast<double>(n.gpus), n.nvdec, n.nvenc};
  return all[resource];
}
inline double of(const Need& n, size_t resource) {
  const double all[kResources] = {n.cores, n.memory, n.gpus, n.nvdec, n.nvenc};
  return all[resource];
}

// Seconds of work per input of the source for each stage, all its workers together.
inline std::vector<double> work_of(const std::vector<Stage>& stages) {
  std::vector<double> samples(stages.size()), work(stages.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    samples[i] = stages[i].from.empty() ? 1 : 0;
    for (const uint32_t from : stages[i].from) samples[i] += samples[from] * stages[from].out;
    work[i] = samples[i] * stages[i].seconds;
  }
  return work;
}

// Inputs of the source per second, with these numbers of workers.
inline double throughput(const std::vector<double>& work, const std::vector<int64_t>& workers) {
  double t = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < work.size(); ++i)
    if (work[i] > 0) t = std::min(t, static_cast<double>(workers[i]) / work[i]);
  return t;
}

// The fewest workers of each stage that reach `t` inputs per second; at least one each.
inline std::vector<int64_t> workers_for(const std::vector<Stage>& stages, const std::vector<double>& work,
                                        double t) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < stages.size(); ++i)
    out.push_back(stages[i].workers > 0
                      ? stages[i].workers
                      : std::max<int64_t>(1, static_cast<int64_t>(std::ceil(t * work[i] * (1 - 1e-9)))));
  return out;
}

// Throughput limit of the stages with a fixed number of workers, whatever the nodes.
inline double limit_of_fixed(const std::vector<Stage>& stages, const std::vector<double>& work) {
  double t = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < stages.size(); ++i)
    if (stages[i].workers > 0 && work[i] > 0)
      t = std::min(t, static_cast<double>(stages[i].workers) / work[i]);
  return t;
}

// One machine whose resources move from stage to stage with the work: no stage owns a core, so a stage may
// use two thirds of one. Computes the machine's throughput and the number of workers that each stage then
// needs.
struct Shared {
  double throughput = 0;  // inputs of the source per second; 0 if no stage has work
  std::optional<size_t>
      bound;  // the stage whose workers are all busy, or that uses most of the exhausted resource
};

// `workers` of a stage: its largest number at once; 0: any number.
inline Shared shared(const std::vector<Stage>& stages, const Node& node) {
  const std::vector<double> work = work_of(stages);
  Shared out{std::numeric_limits<double>::infinity(), std::nullopt};
  const auto limit = [&](double t, size_t stage) {
    if (t < out.throughput) out = {t, stage};
  };
  for (size_t r = 0; r < kResources; ++r) {
    double all = 0, largest = 0;
    size_t most = 0;
    for (size_t i = 0; i < stages.size(); ++i) {
      const double share = work[i] * of(stages[i].need, r);
      all += share;
      if (share > largest) largest = share, most = i;
    }
    if (all > 0) limit(of(node, r) / all, most);
  }
  for (size_t i = 0; i < stages.size(); ++i)
    if (stages[i].workers > 0 && work[i] > 0) limit(static_cast<double>(stages[i].workers) / work[i], i);
  if (!std::isfinite(out.throughput)) out.throughput = 0;
  return out;
}

}  // namespace kinora::balance
