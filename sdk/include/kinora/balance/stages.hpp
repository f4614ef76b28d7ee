// The balancer's input: stages, their graph, the resources of a worker, and nodes.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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

}  // namespace kinora::balance
