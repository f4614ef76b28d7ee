// This rank's part of the gradient of a flat vector, summed over the ranks of its group and over
// microbatches.
#pragma once
#include "plugins/parallel/fsdp/flat.hpp"

namespace kinora::fsdp {

class FlatGradient {
 public:
  // at_once: each microbatch's gradient is scattered when it is known (stages 2 and 3); otherwise the whole
  // gradient is kept and scattered at the end of the step (stage 1).
  FlatGradient(Group<at::Tensor> group, bool at_once) : group_(group), at_once_(at_once) {}

  // whole: the gradient of one microbatch and this rank's samples, in the dtype of sums.
  void add(at::Tensor whole);
  // Finishes the running transfer, if any.
  void settle();
  // The step is over: starts the postponed transfer.
  void start();
  // After start(): returns the step's gradient and keeps nothing. like: has the shape and device of a gradient that
  // is zero.
  at::Tensor take(const at::Tensor& like, at::ScalarType dtype);

 private:
  Group<at::Tensor> group_;
  bool at_once_;
  at::Tensor whole_, part_;
  Started<at::Tensor> coming_;
};

}  // namespace kinora::fsdp
