// The parameters of one block as one vector, of which every rank of a group keeps an equal part.
//
// P ranks, N numbers of all parameters, n = ceil(N / P): rank r keeps [r n, (r + 1) n), the last ones padded
// with zeros. Parameters that tensor parallelism has cut stand first, so that one place parts the two kinds
// of gradients.
#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "kinora/strategy.hpp"

namespace kinora::fsdp {

// A parameter as the link saw it declared.
struct Declared {
  kinora_param id = 0;
  int64_t block = -1;
  std::vector<int64_t> shape;  // of the local piece
  bool split = false;          // tensor parallelism has cut it
  bool frozen = false;
  int64_t numel() const;
};

class Flat {
 public:
  // Draws its parameters one at a time and keeps this rank's part of them; those that have nothing of it are
  // not drawn.
  void take(std::vector<Declared> parameters, Group<at::Tensor> group, const Context<at::Tensor>& next);

  bool empty() const { return parameters_.empty(); }
  size_t count() const { return parameters_.size(); }
  int64_t padded() const { return part_ * group_.size(); }
  const std::vector<Declared>& parameters() const { return parameters_; }
  const at::Tensor& shard() const { return shard_; }
  // How many numbers of the shard are of parameters that tensor parallelism has cut; they come first.
  int64_t split() const;
  std::vector<Link<at::Tensor>::Piece> pieces() const;

  // The whole vector on every rank, [padded()]. dtype: that it travels in.
  Started<at::Tensor> start_gather(at::ScalarType dtype) const;
  // One tensor a parameter, the same memory as `whole`. They are no views in the eyes of autograd.
  std::vector<at::Tensor> values(const at::Tensor& whole) const;
  // One tensor a parameter -> the whole vector.
  at::Tensor joined(const std::vector<at::Tensor>& values, at::ScalarType dtype) const;

 private:
  std::vector<Declared> parameters_;
  std::vector<int64_t> offsets_;
  Group<at::Tensor> group_;
  int64_t part_ = 0;  // n
  at::Tensor shard_;  // the leaf: [n]
};

}  // namespace kinora::fsdp
