// Samples that wait until there are enough of them for one call of a model.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/stage.hpp"

namespace kinora::exported {

class Batch {
 public:
  // One input a clip -> one output [B, ...] a clip, of the same order.
  using Call = std::function<at::Tensor(const std::vector<at::Tensor>&)>;
  // The sample with its row of the output goes on, or is dropped.
  using Done = std::function<void(Sample, const at::Tensor& row, const Emit&)>;
  Batch(int64_t size, Call call, Done done)
      : size_(static_cast<size_t>(size)), call_(std::move(call)), done_(std::move(done)) {}

  // In process(): keeps the sample back, or with it fills the batch and ends all of it. A call that fails is
  // made again for each alone, and those that fail alone end as failed.
  void add(Sample sample, at::Tensor input, const Emit& emit);
  // In finish().
  void flush(const Emit& emit);

 private:
  void one_by_one(const Emit& emit);
  size_t size_;
  Call call_;
  Done done_;
  std::vector<Sample> samples_;
  std::vector<at::Tensor> inputs_;
  bool said_ = false;  // in the log, that a batch failed as a whole
};

}  // namespace kinora::exported
