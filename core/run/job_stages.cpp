#include "core/run/job_stages.hpp"

#include <algorithm>
#include <array>

#include "core/base/suggest.hpp"
#include "core/run/job_check.hpp"

namespace kinora::core {
namespace {

using Complain = std::function<void(const ComponentUse&, const std::string&)>;

// The stages with this name in `from`; adds a problem unless there is exactly one.
std::vector<size_t> find_stage(const std::vector<const ComponentUse*>& stages, size_t asks,
                               const std::string& name, const Complain& problem) {
  std::vector<size_t> found;
  std::vector<std::string> names;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (i != asks) names.push_back(stages[i]->called());
    if (stages[i]->called() == name) found.push_back(i);
  }
  if (found.empty())
    problem(*stages[asks], "from: no stage of this job is called '" + name + "'" +
                               did_you_mean_or_list(name, names, "there are"));
  if (found.size() > 1)
    problem(*stages[asks], "from: " + std::to_string(found.size()) + " stages are called '" + name +
                               "'; give each a name = \"...\" of its own");
  if (found.size() != 1) found.clear();
  return found;
}

}  // namespace

StageGraph stage_graph(const std::vector<const ComponentUse*>& stages, const Complain& problem) {
  StageGraph out;
  out.from.resize(stages.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    const ComponentUse& stage = *stages[i];
    for (size_t other = 0; other < i && !stage.name.empty(); ++other)
      if (stages[other]->name == stage.name)
        problem(stage, "two stages have the name '" + stage.name + "'; rename one");
    if (!stage.from) {
      if (i > 0) out.from[i] = {i - 1};
      continue;
    }
    for (const auto& name : *stage.from)
      for (const size_t from : find_stage(stages, i, name, problem))
        if (std::find(out.from[i].begin(), out.from[i].end(), from) == out.from[i].end())
          out.from[i].push_back(from);
  }
  // Places each stage once all its inputs are placed, otherwise in the order of the list.
  std::vector<bool> placed(stages.size());
  while (out.order.size() < stages.size()) {
    size_t next = stages.size();
    for (size_t i = stages.size(); i-- > 0;)
      if (!placed[i] &&
          std::all_of(out.from[i].begin(), out.from[i].end(), [&](size_t f) { return placed[f]; }))
        next = i;
    if (next == stages.size()) break;
    placed[next] = true;
    out.order.push_back(next);
  }
  for (size_t i = 0; i < stages.size(); ++i)
    if (!placed[i]) {
      problem(*stages[i],
              "from: stage '" + stages[i]->called() +
                  "' waits for itself: its output comes back to it; let the first stage of the cycle "
                  "take the output of an earlier stage");
      break;
    }
  return out;
}

// Stages of these families set fields by the project's conventions; abi/plugin.h reserves `shard` and `text` too.
bool is_of_own_family(std::string_view id) {
  constexpr std::array<std::string_view, 7> kFamilies{"video",  "shots",   "clip", "embed",
                                                      "filter", "caption", "dedup"};
  const std::string_view name = id.substr(id.find('/') + 1), family = name.substr(0, name.find('.'));
  return std::find(kFamilies.begin(), kFamilies.end(), family) != kFamilies.end();
}

std::set<std::string> own_stages(const Registry& registry) {
  std::set<std::string> out;
  for (const auto& plugin : registry.plugins()) {
    if (!is_built_in(plugin) || plugin.state == PluginState::shadowed) continue;
    for (const auto& component : plugin.spec.components)
      if (component.kind == "stage" && is_of_own_family(component.id) &&
          !plugin.shadowed.contains(component.id))
        out.insert(component.id);
  }
  return out;
}

namespace {

// Empty for an engine without this option.
std::vector<std::string> isolate_of(const ComponentUse* engine) {
  if (!engine) return {};
  const json& options = engine->options.values();
  const auto at = options.find("isolate");
  return at != options.end() && at->is_array() ? at->get<std::vector<std::string>>()
                                               : std::vector<std::string>();
}

}  // namespace

bool may_run_apart(const JobSpec& job, const ComponentUse& stage) {
  const auto which = isolate_of(job.component("engine"));
  return std::any_of(which.begin(), which.end(), [&](const std::string& name) {
    return name == "auto" || name == "all" || name == stage.called();
  });
}

std::vector<std::string> isolation_problems(const JobSpec& job,
                                            const std::vector<const ComponentUse*>& stages) {
  std::vector<std::string> names{"auto", "none", "all"}, out;
  for (const auto* stage : stages) names.push_back(stage->called());
  const auto which = isolate_of(job.component("engine"));
  for (const auto& name : which)
    if (std::find(names.begin(), names.end(), name) == names.end())
      out.push_back("isolate names '" + name + "', which is not a stage of this job" +
                    did_you_mean_or_list(name, names, "it may be"));
  for (const char* alone : {"none", "all"})
    if (std::find(which.begin(), which.end(), alone) != which.end() &&
        std::any_of(which.begin(), which.end(), [&](const std::string& name) { return name != alone; }))
      out.push_back("isolate has '" + std::string(alone) +
                    "' together with other names, which contradict it; give \"" + alone +
                    "\" alone, or only the others");
  return out;
}

void check_isolated(JobCheck& check, const std::vector<const ComponentUse*>& stages) {
  for (const auto& message : isolation_problems(check.spec(), stages))
    check.problem(check.spec().component("engine")->at, message);
}

}  // namespace kinora::core
