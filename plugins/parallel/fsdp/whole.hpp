// The gathered parameters of a block during one run of it. The graph of the block keeps tensors that share
// their memory: emptied after the forward and filled again before the backward, it stays theirs, and no
// version counter sees it.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace kinora::fsdp {

class Whole {
 public:
  // Of a vector's numbers; undefined: of none. Takes the memory over.
  explicit Whole(at::Tensor gathered) : numbers_(std::move(gathered)) {}
  const at::Tensor& numbers() const { return numbers_; }
  void empty();
  // With a vector of the same size and dtype, whose memory is taken over.
  void fill(const at::Tensor& gathered);

 private:
  at::Tensor numbers_;
};

}  // namespace kinora::fsdp
