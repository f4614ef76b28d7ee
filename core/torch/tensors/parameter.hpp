// A model's parameters, the part of them that this process holds, and its position in the tensors that the
// optimizer updates.
//
// A parameter is declared with the shape of one process. Tensor parallelism cuts it along one dimension,
// every fused part by itself, and this process holds shard `shard` of `shards`: the local piece. A leaf is a
// tensor with storage and a gradient: a local piece itself, or (FSDP) a flat tensor that holds ranges of
// several local pieces.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/link.h"

namespace kinora::core {

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;  // in one process
  uint32_t role = KINORA_ROLE_WHOLE;
  std::vector<int64_t> parts;  // sizes along the split dimension; they sum to its size
  int64_t quantum = 1;         // a shard of a part is a multiple of it
  int64_t block = -1;          // the block() that reads it; -1: outside blocks
  uint32_t init = KINORA_INIT_CONSTANT;
  double a = 0;
  bool frozen = false;
  int64_t shard = 0, shards = 1;
  bool absent = false;  // its block runs on other ranks only: this rank holds nothing of it

  int64_t dim() const { return role == KINORA_ROLE_ROW ? 1 : 0; }  // the split dimension
  std::vector<int64_t> local_shape() const;
  int64_t numel() const;        // in one process
  int64_t local_numel() const;  // of the local piece
};

// Converts the declaration of a model or of a link above. Throws Error(KINORA_ERROR_INVALID) if the spec
// contradicts itself or a part does not divide into `shards` multiples of `quantum`.
Parameter make_parameter(const kinora_param_spec& spec);

// A range that is contiguous (row-major) both in the whole parameter and in the local piece.
struct Run {
  int64_t global, local, count;
};
// The runs of [first, first + count) of the flattened local piece, in order.
std::vector<Run> runs(const Parameter& p, int64_t first, int64_t count);

// The local piece of the whole tensor, contiguous.
at::Tensor slice(const Parameter& p, const at::Tensor& whole);
// Copies a local piece to its position in `whole`, in place.
void place(const Parameter& p, const at::Tensor& local, const at::Tensor& whole);

// Initial values of the parameter's local piece: drawn by (seed, name, global index), so equal at every
// topology. CPU, without gradient; drawn in float64, then rounded to dtype.
at::Tensor draw(const Parameter& p, uint64_t seed, at::ScalarType dtype);

// Range [first, first + count) of the flattened local piece, stored at `offset` of the flattened leaf.
struct Piece {
  kinora_param param = 0;
  int64_t first = 0, count = 0, offset = 0;
};

struct Leaf {
  std::string name;   // its parameter's, or "a .. b" for the first and last of several
  at::Tensor tensor;  // requires_grad unless frozen; its grad() is this process' partial sum until the
                      // trainer sums it
  bool frozen = false;
  bool reduced_by_link = false;  // a link completes its gradient in reduce(); the trainer leaves it alone
  std::vector<Piece> pieces;
};

}  // namespace kinora::core
