// What this rank holds of some tensors of a file.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/torch/tensors/parameter.hpp"

namespace kinora::core {

using NamedTensors = std::map<std::string, at::Tensor>;
using Parameters = std::vector<Parameter>;  // by kinora_param - 1

struct Holding {
  Parameters parameters;     // on every rank the same, but for the shards
  std::vector<Leaf> leaves;  // with the numbers that are meant; undefined: nothing of them is
  std::string prefix;        // of the parameters' names, as the file calls them
};
// One tensor a leaf, of the leaf's shape (values, optimizer state, averages).
Holding held(const Parameters&, const std::vector<Leaf>&, const std::vector<at::Tensor>& per_leaf,
             const std::string& prefix = "");
// Whole tensors, on every rank that gives them.
Holding held(const NamedTensors& tensors);

// Where a piece lies in the flattened tensor of its leaf.
at::Tensor range_of(const at::Tensor& of_leaf, const Piece& piece);

// The numbers [piece.first, + piece.count) of the local piece of `p`, flat, into the whole parameter, and
// back. Both on the CPU, contiguous, of one dtype.
void copy_to_whole(const Parameter& p, const Piece& piece, const void* local, const at::Tensor& whole);
void copy_from_whole(const Parameter& p, const Piece& piece, const at::Tensor& whole, void* local);

}  // namespace kinora::core
