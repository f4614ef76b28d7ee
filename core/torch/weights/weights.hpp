// Whole tensors by name <-> the leaves of this process. Files hold names and shapes of one process, so a run
// resumes at any topology.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/torch/weights/exchange.hpp"
#include "core/torch/weights/holding.hpp"

namespace kinora::core {

// Whole CPU tensors by parameter name, in copies, from one tensor a leaf of the leaf's shape (values,
// optimizer state, averages). Every rank gets all of them and gives what it holds, so this is for what is
// small: an adapter, one process. A file is written without it (sharded_files.hpp).
NamedTensors assemble(const Parameters&, const std::vector<Leaf>&, const std::vector<at::Tensor>& per_leaf,
                      const Exchange& exchange = {});
// The leaves' values.
NamedTensors assemble(const Parameters&, const std::vector<Leaf>&, const Exchange& exchange = {});
std::vector<at::Tensor> values_of(const std::vector<Leaf>& leaves);

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
// nothing is copied then. One tensor at a time is asked for its numbers, and let go before the next; of each
// only what this process holds is read.
LoadReport distribute(const Parameters&, const std::vector<Leaf>&, const std::vector<at::Tensor>& per_leaf,
                      const std::vector<std::string>& names, const Find& find,
                      const LoadOptions& options = {});
LoadReport load_values(const Parameters&, const std::vector<Leaf>&, const std::vector<std::string>& names,
                       const Find& find, const LoadOptions& options = {});
LoadReport load_values(const Parameters&, const std::vector<Leaf>&, const NamedTensors&,
                       const LoadOptions& options = {});

}  // namespace kinora::core
