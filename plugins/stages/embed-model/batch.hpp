// Collects samples until there are enough for one call of a model.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/stage.hpp"

namespace kinora::exported {

class Batch {
 public:
  // Maps one input per clip to one output [B, ...], rows in the same order.
  using Call = std::function<at::Tensor(const std::vector<at::Tensor>&)>;
  // Emits or drops the sample, given its row of the output.
  using Done = std::function<void(Sample, const at::Tensor& row, const Emit&)>;
  Batch(int64_t size, Call call, Done done)
      : size_(static_cast<size_t>(size)), call_(std::move(call)), done_(std::move(done)) {}

  // Called in process(): holds the sample, or runs the batch if this sample fills it. If the call fails, it is
  // repeated for each sample alone, and the samples that fail alone are failed.
  void add(Sample sample, at::Tensor input, const Emit& emit);
  // Called in finish(): runs the last, incomplete batch.
  void flush(const Emit& emit);

 private:
  void one_by_one(const Emit& emit);
  size_t size_;
  Call call_;
  Done done_;
  std::vector<Sample> samples_;
  std::vector<at::Tensor> inputs_;
  bool said_ = false;  // whether a failed batch has been logged
};

}  // namespace kinora::exported
