#include "core/run/stage_graph.hpp"

#include <algorithm>

#include "core/base/suggest.hpp"

namespace kinora::core {
namespace {

using Complain = std::function<void(const ComponentUse&, const std::string&)>;

// The stages with this name in `from`; adds a problem unless there is exactly one.
std::vector<size_t> find_stage(const std::vector<const ComponentUse*>& stages, size_t asks, const std::string& name,
                               const Complain& problem) {
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
        if (std::find(out.from[i].begin(), out.from[i].end(), from) == out.from[i].end()) out.from[i].push_back(from);
  }
  // Places each stage once all its inputs are placed, otherwise in the order of the list.
  std::vector<bool> placed(stages.size());
  while (out.order.size() < stages.size()) {
    size_t next = stages.size();
    for (size_t i = stages.size(); i-- > 0;)
      if (!placed[i] && std::all_of(out.from[i].begin(), out.from[i].end(), [&](size_t f) { return placed[f]; })) next = i;
    if (next == stages.size()) break;
    placed[next] = true;
    out.order.push_back(next);
  }
  for (size_t i = 0; i < stages.size(); ++i)
    if (!placed[i]) {
      problem(*stages[i], "from: stage '" + stages[i]->called() +
                              "' waits for itself: its output comes back to it; let the first stage of the cycle "
                              "take the output of an earlier stage");
      break;
    }
  return out;
}

}  // namespace kinora::core
