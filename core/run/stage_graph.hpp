// The graph of a job's stages: stages = [{ use = "...", name = "a" }, { use = "...", from = ["a"] }].
#pragma once
#include <functional>
#include <vector>

#include "core/run/run_file.hpp"

namespace kinora::core {

// Without `from`, a stage takes the output of the one before it in the list; the first stage, and any with an empty
// `from`, takes the source.
struct StageGraph {
  std::vector<size_t> order;               // of the list's stages, each after those whose output it takes
  std::vector<std::vector<size_t>> from;   // for each stage of the list, the indices of its inputs
};

// Reports problems (unknown and ambiguous names, cycles) to `problem` with the stage at fault; the graph must not be
// used then.
StageGraph stage_graph(const std::vector<const ComponentUse*>& stages,
                       const std::function<void(const ComponentUse&, const std::string&)>& problem);

}  // namespace kinora::core
