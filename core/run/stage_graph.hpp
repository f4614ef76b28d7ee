// The graph of a job's stages: stages = [{ use = "...", name = "a" }, { use = "...", from = ["a"] }].
#pragma once
#include <functional>
#include <vector>

#include "core/run/run_file.hpp"

namespace kinora::core {

// Without `from`, a stage takes the output of the one before it in the list, the first that of the source; an
// empty `from` means the source too.
struct StageGraph {
  std::vector<size_t> order;               // of the list's stages, each after those whose output it takes
  std::vector<std::vector<size_t>> from;   // by place in the list, numbers of the list
};

// Problems (unknown and ambiguous names, circles) go to `problem`, with the stage that has it; the graph is not to be used
// then.
StageGraph stage_graph(const std::vector<const ComponentUse*>& stages,
                       const std::function<void(const ComponentUse&, const std::string&)>& problem);

}  // namespace kinora::core
