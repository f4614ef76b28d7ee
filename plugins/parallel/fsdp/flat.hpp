// The parameters of one block as one vector, of which every rank of a group stores an equal part.
//
// P ranks, N numbers of all parameters, n = ceil(N / P): rank r stores [r n, (r + 1) n), the last ones padded
// with zeros. Parameters split by tensor parallelism come first, so that one index separates the two kinds
// of gradients.
#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "kinora/strategy.hpp"

namespace kinora::fsdp {

// A parameter as it was declared to the link.
struct Declared {
  kinora_param id = 0;
  int64_t block = -1;
  std::vector<int64_t> shape;  // of the local piece
  bool split = false;          // split by tensor parallelism
  bool frozen = false;
  int64_t numel() const;
};

class Flat {
 public:
  // Computes its parameters one at a time and stores this rank's part of them; parameters outside this part are
  // skipped.
  void take(std::vector<Declared> parameters, Group<at::Tensor> group, const Context<at::Tensor>& next);

  bool empty() const { return parameters_.empty(); }
  size_t count() const { return parameters_.size(); }
  int64_t padded() const { return part_ * group_.size(); }
  const std::vector<Declared>& parameters() const { return parameters_; }
  const at::Tensor& shard() const { return shard_; }
  // Numbers of the shard that belong to parameters split by tensor parallelism; they come first.
  int64_t split() const;
  std::vector<Link<at::Tensor>::Piece> pieces() const;

  // The whole vector on every rank, [padded()]. dtype: of the transfer.
  Started<at::Tensor> start_gather(at::ScalarType dtype) const;
  // One tensor per parameter, in the memory of `whole`. Autograd does not see them as views.
  std::vector<at::Tensor> values(const at::Tensor& whole) const;
  // One tensor per parameter -> the whole vector.
  at::Tensor joined(const std::vector<at::Tensor>& values, at::ScalarType dtype) const;

 private:
  std::vector<Declared> parameters_;
  std::vector<int64_t> offsets_;
  Group<at::Tensor> group_;
  int64_t part_ = 0;  // n
  at::Tensor shard_;  // the leaf: [n]
};

}  // namespace kinora::fsdp
