// The gathered parameters of a block during one run of it. The block's graph keeps tensors that share
// their memory. It is freed after the forward and filled again before the backward, without the graph's version
// counters noticing.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace kinora::fsdp {

class Whole {
 public:
  // Takes over the memory of a vector's numbers; undefined: of none.
  explicit Whole(at::Tensor gathered) : numbers_(std::move(gathered)) {}
  const at::Tensor& numbers() const { return numbers_; }
  void empty();
  // Takes over the memory of a vector of the same size and dtype.
  void fill(const at::Tensor& gathered);

 private:
  at::Tensor numbers_;
};

}  // namespace kinora::fsdp
