#include "core/run/isolation.hpp"

#include <algorithm>

#include "core/suggest.hpp"
#include "core/workers/service.hpp"

namespace kinora::core {
namespace {

// Nothing of an engine that has no such option.
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

void check_isolated(JobCheck& check, const std::vector<const ComponentUse*>& stages) {
  const ComponentUse* engine = check.spec().component("engine");
  std::vector<std::string> names{"auto", "none", "all"};
  for (const auto* stage : stages) names.push_back(stage->called());
  for (const auto& name : isolate_of(engine))
    if (std::find(names.begin(), names.end(), name) == names.end())
      check.problem(engine->at, "isolate names '" + name + "', which is no stage of this job" +
                                    did_you_mean_or_list(name, names, "it may be"));
}

}  // namespace kinora::core
