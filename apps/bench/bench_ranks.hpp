// Shared parts of multi-rank benchmarks: the ranks of a launch, strategies and training steps on them, and
// measuring in turns.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/bench.hpp"
#include "core/runtime/runtime.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/ranks/mesh.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "kinora/abi/parallel.h"

namespace kinora::core {

// The ranks of this launch over collective/gloo, all of them along any requested axis.
class BenchRanks {
 public:
  explicit BenchRanks(Runtime& runtime);
  // [owner-thread] Every rank must request the same axes in the same order.
  const kinora_mesh* along(const std::string& axis) const { return mesh(axis).abi(); }
  int64_t rank() const { return place_.rank; }
  int64_t size() const { return place_.world; }
  // Waits until all ranks have called it.
  void meet() const;
  // Bytes sent by this rank and its waiting time so far.
  TrafficRow traffic() const;
  const kinora_group& group() const { return *mesh("cp").group("cp"); }
  // The value of every rank, by rank.
  std::vector<double> of_all(double mine) const;

 private:
  MeshOwner& mesh(const std::string& axis) const;
  LaunchPlace place_;
  const kinora_collective* api_ = nullptr;
  std::unique_ptr<void, void (*)(void*)> collective_{nullptr, [](void*) {}};
  mutable std::map<std::string, std::unique_ptr<MeshOwner>> meshes_;
};

// A strategy with its link, on all ranks.
class BenchStrategy {
 public:
  BenchStrategy(Runtime& runtime, const std::string& id, const json& options, const BenchRanks& ranks);
  const std::vector<const kinora_link*>& links() const { return links_; }
  void step(const Parallelism::Microbatches&) const;

 private:
  const kinora_parallel* api_ = nullptr;
  std::unique_ptr<void, void (*)(void*)> self_{nullptr, [](void*) {}};
  std::vector<const kinora_link*> links_;
};

// One measured operation.
struct Measured {
  std::string name;
  int threads = 1;
  bool alone = false;  // rank 0 runs it, the others wait
  std::function<void()> work;
  bool metered = false;  // `most` is measured
  std::vector<double> seconds = {};
  // For this rank and one run: bytes sent, peak bytes of tensors besides those that existed before, and the
  // share by which all ranks take longer than this one works (0.2: a fifth longer).
  int64_t bytes = 0, most = 0;
  std::vector<double> idle = {};
};

// Runs each operation once per round, in turn; a warm-up round is not counted.
void measure(const BenchRanks&, std::vector<Measured>&, int repeat);
// The median of the rounds' ratios.
double ratio(const Measured& a, const Measured& b);

// A model behind a strategy with its training step, for benchmarks.
class BenchStep {
 public:
  // text: [1, L, size], the model's text input. The strategy must outlive this object.
  BenchStep(Runtime&, const std::string& model, const json& options, const Frames& rule, const BenchStrategy&,
            at::Tensor text);
  // The loss covers frames [from, ...), those that a rank learns from. Gradients keep their own memory from
  // the first step on.
  void operator()(const at::Tensor& latent, int64_t from = 0, int64_t micro = 1);

 private:
  const BenchStrategy& strategy_;
  Component component_;
  Model network_;
  at::Tensor text_;
};

}  // namespace kinora::core
