// Converts between whole tensors by name and the leaves of this process. Files contain names and shapes of
// one process, so a run resumes at any topology.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/torch/tensors/parameter.hpp"
#include "core/torch/weights/exchange.hpp"

namespace kinora::core {

using NamedTensors = std::map<std::string, at::Tensor>;
using Parameters = std::vector<Parameter>;  // by kinora_param - 1

// This rank's part of some tensors of a file.
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

// Copies of whole CPU tensors by parameter name, from one tensor per leaf with the leaf's shape (values,
// optimizer state, averages). Every rank contributes its part and gets all tensors, so this is for small
// data: an adapter, or one process. Checkpoints are written without it (Gathering).
NamedTensors assemble(const Parameters&, const std::vector<Leaf>&, const std::vector<at::Tensor>& per_leaf,
                      const Exchange& exchange = {});
// The leaves' values.
NamedTensors assemble(const Parameters&, const std::vector<Leaf>&, const Exchange& exchange = {});
std::vector<at::Tensor> values_of(const std::vector<Leaf>& leaves);

// A whole tensor of a file. Its values are read, or decoded, by read(), which need not be called.
struct Found {
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  std::function<at::Tensor()> read;  // empty: there is no such tensor

  Found() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Found(const at::Tensor& t) {
    if (t.defined()) *this = Found(t.sizes().vec(), t.scalar_type(), [t] { return t; });
  }
  Found(std::vector<int64_t> of_shape, at::ScalarType of_dtype, std::function<at::Tensor()> reads)
      : shape(std::move(of_shape)), dtype(of_dtype), read(std::move(reads)) {}
  explicit operator bool() const { return read != nullptr; }
};
// Source of whole tensors.
using Find = std::function<Found(const std::string& name)>;

struct LoadOptions {
  bool allow_missing = false;  // missing parameters keep their initial values
  bool compare_only = false;   // nothing is copied and no value is read
  // Parameters that may be missing (an adapter's, while its base model is loaded). Null: none.
  std::function<bool(const std::string& name)> may_miss = nullptr;
  // Unexpected tensors that are ignored. Null: none.
  std::function<bool(const std::string& name)> may_ignore = nullptr;
};
struct LoadReport {
  std::vector<std::string> missing, unexpected;
};
// Copies whole tensors into per_leaf, converting dtypes. Throws Error(KINORA_ERROR_INVALID) with every
// missing name (and the nearest existing name), every unexpected one, and every shape that differs, with both
// shapes; nothing is copied then. Tensors are read and released one at a time, and of each only this process'
// part is read; a matrix in four bits is decoded whole.
LoadReport distribute(const Parameters&, const std::vector<Leaf>&, const std::vector<at::Tensor>& per_leaf,
                      const std::vector<std::string>& names, const Find& find,
                      const LoadOptions& options = {});
LoadReport load_values(const Parameters&, const std::vector<Leaf>&, const std::vector<std::string>& names,
                       const Find& find, const LoadOptions& options = {});
LoadReport load_values(const Parameters&, const std::vector<Leaf>&, const NamedTensors&,
                       const LoadOptions& options = {});

}  // namespace kinora::core
