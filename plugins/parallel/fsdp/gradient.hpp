// This rank's part of the gradient of a flat vector, summed over the ranks of its group and over
// microbatches.
#pragma once
#include "plugins/parallel/fsdp/flat.hpp"

namespace kinora::fsdp {

class FlatGradient {
 public:
  // at_once: each microbatch's gradient is scattered when it is known (stages 2 and 3); else the whole
  // gradient is kept and scattered at the end of the step (stage 1).
  FlatGradient(Group<at::Tensor> group, bool at_once) : group_(group), at_once_(at_once) {}

  // whole: of one microbatch and this rank's samples, in the dtype of sums.
  void add(at::Tensor whole);
  // Ends the transfer that is under way, if any.
  void settle();
  // The step is over: starts what was put off.
  void start();
  // After start(): what the step left, and nothing is kept. like: of the shape and device of a gradient that
  // is zero.
  at::Tensor take(const at::Tensor& like, at::ScalarType dtype);

 private:
  Group<at::Tensor> group_;
  bool at_once_;
  at::Tensor whole_, part_;
  Started<at::Tensor> coming_;
};

}  // namespace kinora::fsdp
