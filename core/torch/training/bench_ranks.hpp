// What benchmarks of several ranks share: the ranks of a launch, strategies on them, and measuring in turns.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime.hpp"
#include "core/torch/context/mesh.hpp"
#include "kinora/abi/strategy.h"

namespace kinora::core {

// The ranks of this launch along one axis, over collective/gloo.
class BenchRanks {
 public:
  BenchRanks(Runtime& runtime, const std::string& axis);
  const kinora_mesh* mesh() const { return mesh_->abi(); }
  int64_t rank() const { return mesh()->rank; }
  int64_t size() const { return mesh()->size; }
  // All ranks come here before any goes on.
  void meet() const;
  // Bytes that this rank has sent so far.
  int64_t sent() const { return mesh_->traffic().total().sent; }
  const kinora_group& group() const { return *mesh_->group("world"); }

 private:
  std::unique_ptr<void, void (*)(void*)> collective_{nullptr, [](void*) {}};
  std::unique_ptr<MeshOwner> mesh_;
};

// A strategy with its link.
class BenchStrategy {
 public:
  BenchStrategy(Runtime& runtime, const std::string& id, const json& options, const BenchRanks& ranks);
  const std::vector<const kinora_link*>& links() const { return links_; }

 private:
  std::unique_ptr<void, void (*)(void*)> self_{nullptr, [](void*) {}};
  std::vector<const kinora_link*> links_;
};

// One thing that is measured.
struct Measured {
  std::string name;
  int threads = 1;
  bool alone = false;  // rank 0 does it, the others wait
  std::function<void()> work;
  std::vector<double> seconds = {};
  int64_t bytes = 0;  // that this rank sends, of one time
};

// Each once a round, in turn; a round before the first is not counted.
void measure(const BenchRanks&, std::vector<Measured>&, int repeat);
double median(std::vector<double>);
// The median of the rounds' ratios.
double ratio(const Measured& a, const Measured& b);

}  // namespace kinora::core
