#include "core/run/isolation.hpp"

#include <algorithm>

#include "core/base/suggest.hpp"
#include "core/workers/service.hpp"

namespace kinora::core {
namespace {

// Empty for an engine without this option.
std::vector<std::string> isolate_of(const ComponentUse* engine) {
  if (!engine) return {};
  const json& options = engine->options.values();
  const auto at = options.find("isolate");
  return at != options.end() && at->is_array() ? at->get<std::vector<std::string>>() : std::vector<std::string>();
}

}  // namespace

bool may_run_apart(const JobSpec& job, const ComponentUse& stage) {
  const auto which = isolate_of(job.component("engine"));
  return workers_are_offered() && std::any_of(which.begin(), which.end(), [&](const std::string& name) {
           return name == "auto" || name == "all" || name == stage.called();
         });
}

std::vector<std::string> isolation_problems(const JobSpec& job, const std::vector<const ComponentUse*>& stages) {
  std::vector<std::string> names{"auto", "none", "all"}, out;
  for (const auto* stage : stages) names.push_back(stage->called());
  const auto which = isolate_of(job.component("engine"));
  for (const auto& name : which)
    if (std::find(names.begin(), names.end(), name) == names.end())
      out.push_back("isolate names '" + name + "', which is not a stage of this job" + did_you_mean_or_list(name, names, "it may be"));
  for (const char* alone : {"none", "all"})
    if (std::find(which.begin(), which.end(), alone) != which.end() &&
        std::any_of(which.begin(), which.end(), [&](const std::string& name) { return name != alone; }))
      out.push_back("isolate has '" + std::string(alone) + "' together with other names, which contradict it; give \"" + alone +
                    "\" alone, or only the others");
  return out;
}

void check_isolated(JobCheck& check, const std::vector<const ComponentUse*>& stages) {
  for (const auto& message : isolation_problems(check.spec(), stages))
    check.problem(check.spec().component("engine")->at, message);
}

}  // namespace kinora::core
