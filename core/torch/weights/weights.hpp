// Whole tensors by name <-> the leaves of this process. Checkpoints hold names and shapes of one process, so
// a run resumes at any topology; a parallel run gives the two hooks of Exchange, one process gives none.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/torch/context/parameter.hpp"

namespace kinora::core {

using NamedTensors = std::map<std::string, at::Tensor>;
using Parameters = std::vector<Parameter>;  // by kinora_param - 1

struct Exchange {
  // Whether this process contributes that piece: exactly one of the ranks that hold the same numbers must.
  // Null: yes.
  std::function<bool(const Leaf&, const Piece&)> mine;
  // Sums a CPU tensor in place over all ranks; called once a parameter, in the order of declaration, on every
  // rank.
  std::function<void(at::Tensor&)> sum;
};

// Whole CPU tensors by parameter name, from one tensor a leaf of the leaf's shape (values, optimizer state,
// averages).
NamedTensors assemble(const Parameters&, const std::vector<Leaf>&, const std::vector<at::Tensor>& per_leaf,
                      const Exchange& exchange = {});
// The leaves' values.
NamedTensors assemble(const Parameters&, const std::vector<Leaf>&, const Exchange& exchange = {});

// Where whole tensors come from; an undefined result: there is none of that name.
using Find = std::function<at::Tensor(const std::string& name)>;

struct LoadOptions {
  bool allow_missing = false;     // such parameters keep their first numbers
  bool allow_unexpected = false;  // such tensors are ignored
  bool compare_only = false;      // nothing is copied, no number read
  // Parameters that need not be there (an adapter's, when the model that it is for is loaded). Null: none.
  std::function<bool(const std::string& name)> may_miss;
};
struct LoadReport {
  std::vector<std::string> missing, unexpected;
};
// Copies whole tensors into per_leaf, converting dtypes. Throws Error(KINORA_INVALID) with every missing name
// (and the nearest name that exists), every unexpected one, and every shape that differs, both shapes said;
// nothing is copied then. One tensor at a time is asked for its numbers, and let go before the next.
LoadReport distribute(const Parameters&, const std::vector<Leaf>&, const std::vector<at::Tensor>& per_leaf,
                      const std::vector<std::string>& names, const Find& find,
                      const LoadOptions& options = {});
LoadReport load_values(const Parameters&, const std::vector<Leaf>&, const std::vector<std::string>& names,
                       const Find& find, const LoadOptions& options = {});
LoadReport load_values(const Parameters&, const std::vector<Leaf>&, const NamedTensors&,
                       const LoadOptions& options = {});

}  // namespace kinora::core
