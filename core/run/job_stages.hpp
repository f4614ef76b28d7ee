// The stages of a job: their graph, which of them are Kinora's own, and which may run in separate processes.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/plugin/registry.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

class JobCheck;

// stages = [{ use = "...", name = "a" }, { use = "...", from = ["a"] }]. Without `from`, a stage takes the
// output of the one before it in the list; the first stage, and any with an empty `from`, takes the source.
struct StageGraph {
  std::vector<size_t> order;              // of the list's stages, each after those whose output it takes
  std::vector<std::vector<size_t>> from;  // for each stage of the list, the indices of its inputs
};

// Reports problems (unknown and ambiguous names, cycles) to `problem` with the stage at fault; the graph must
// not be used then.
StageGraph stage_graph(const std::vector<const ComponentUse*>& stages,
                       const std::function<void(const ComponentUse&, const std::string&)>& problem);

// Whether a stage is of Kinora's own: the fields that it sets follow the project's conventions. About other
// stages only their declarations are known. Judges by the id alone, which a third party's stage may also use.
bool is_of_own_family(std::string_view id);

// Ids of stages of these families whose plugins came with the program: in its built-in folder.
std::set<std::string> own_stages(const Registry& registry);

// Whether the stage may run in a process of its own: the option `isolate` of the job's engine has "auto",
// "all" or the stage's name. False if the engine has no such option or the job has no engine.
bool may_run_apart(const JobSpec&, const ComponentUse& stage);

// Problems of `isolate` for a job with these stages: unknown names, and words that contradict each other.
std::vector<std::string> isolation_problems(const JobSpec&, const std::vector<const ComponentUse*>& stages);
// Adds them as problems of the job, at the engine's place in the file.
void check_isolated(JobCheck&, const std::vector<const ComponentUse*>& stages);

}  // namespace kinora::core
