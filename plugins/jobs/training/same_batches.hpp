// Checks that ranks that share a model compute on the same numbers: different ones would train it wrongly without
// any error.
#pragma once
#include <map>
#include <string>

#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/weights/weights.hpp"

namespace kinora::core {

class SameBatches {
 public:
  // parallel must outlive this object.
  explicit SameBatches(const Parallelism& parallel) : parallel_(parallel) {}

  // Whether ranks share the model at all.
  bool is_needed() const { return parallel_.of_sample().size > 1; }
  // The microbatch that begins with sample `first`, on the CPU.
  void add(int64_t first, const NamedTensors& batch);
  // Compares the microbatches of samples [begin, end), which are those of a step. Collective over all ranks. Throws
  // Error(KINORA_ERROR_DATA), the same on every rank. step: for the message.
  void compare(int64_t begin, int64_t end, int64_t step);

 private:
  using Digests = std::map<std::string, std::string>;  // by name of the tensor
  const Parallelism& parallel_;
  std::map<int64_t, Digests> added_;  // by number of the first sample
};

}  // namespace kinora::core
