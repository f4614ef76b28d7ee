// The parameters of one block as one vector, of which every rank of a group stores an equal part; its
// gradient, and its gathered values while the block runs.
//
// P ranks, N numbers of all parameters, n = ceil(N / P): rank r stores [r n, (r + 1) n), the last ones padded
// with zeros. Parameters split by tensor parallelism come first, so that one index separates the two kinds
// of gradients.
#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include "kernels/wire/wire.hpp"
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
  // Computes its parameters one at a time and stores this rank's part of them; parameters outside this part
  // are skipped.
  void take(std::vector<Declared> parameters, Group<at::Tensor> group, const Context<at::Tensor>& next);

  bool empty() const { return parameters_.empty(); }
  size_t count() const { return parameters_.size(); }
  int64_t padded() const { return part_ * group_.size(); }
  const std::vector<Declared>& parameters() const { return parameters_; }
  const at::Tensor& shard() const { return shard_; }
  // Numbers of the shard that belong to parameters split by tensor parallelism; they come first.
  int64_t split() const;
  std::vector<Link<at::Tensor>::Piece> pieces() const;

  // The parts of all ranks, [padded()]; in a quantised format their bytes, uint8 [P, ..], a message of one row
  // from each rank.
  Started<at::Tensor> start_gather(wire::Format format) const;
  // Decodes the result of start_gather(): the whole vector on every rank, [padded()], quantised numbers in the
  // dtype of the parameters. meter: null, or receives the cost of this rank's part.
  at::Tensor received(const at::Tensor& gathered, wire::Format format, wire::Meter* meter) const;
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

// This rank's part of the gradient of a flat vector, summed over the ranks of its group and over
// microbatches.
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
  // After start(): returns the step's gradient and keeps nothing. like: has the shape and device of a
  // gradient that is zero.
  at::Tensor take(const at::Tensor& like, at::ScalarType dtype);

 private:
  Group<at::Tensor> group_;
  bool at_once_;
  at::Tensor whole_, part_;
  Started<at::Tensor> coming_;
};

// The gathered parameters of a block during one run of it. The block's graph keeps tensors that share
// their memory. It is freed after the forward and filled again before the backward, without the graph's
// version counters noticing.
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
