// This rank's part of some tensors of a file.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/torch/tensors/parameter.hpp"

namespace kinora::core {

using NamedTensors = std::map<std::string, at::Tensor>;
using Parameters = std::vector<Parameter>;  // by kinora_param - 1

struct Holding {
  Parameters parameters;     // the same on every rank, except for the shards
  std::vector<Leaf> leaves;  // with the tensors in question; undefined: nothing is held
  std::string prefix;        // prefix of the parameters' names in the file
};
// One tensor per leaf, with the leaf's shape (values, optimizer state, averages).
Holding held(const Parameters&, const std::vector<Leaf>&, const std::vector<at::Tensor>& per_leaf,
             const std::string& prefix = "");
// Whole tensors, on every rank that passes them.
Holding held(const NamedTensors& tensors);

// The range of a piece in its leaf's flattened tensor.
at::Tensor range_of(const at::Tensor& of_leaf, const Piece& piece);

// Copies elements [piece.first, + piece.count) of the flattened local piece of `p` into the whole parameter,
// and back. Both are on the CPU, contiguous, of one dtype.
void copy_to_whole(const Parameter& p, const Piece& piece, const void* local, const at::Tensor& whole);
void copy_from_whole(const Parameter& p, const Piece& piece, const at::Tensor& whole, void* local);

}  // namespace kinora::core
