#include "plugins/jobs/curate/stage_order.hpp"

#include <algorithm>
#include <set>

#include "core/run/job_stages.hpp"

namespace kinora::core {
namespace {

struct Stage {
  const ComponentUse* use = nullptr;
  const ComponentSpec* spec = nullptr;
  std::set<size_t> before;  // on any way to it

  bool is(std::string_view family) const { return use->id.starts_with("stage/" + std::string(family)); }
  bool cuts() const {
    return std::any_of(spec->outputs.begin(), spec->outputs.end(),
                       [](const TensorSpec& tensor) { return tensor.per == "clip"; });
  }
  json option(const char* name) const { return use->options.values().value(name, json()); }
};

// Of the job, in the order of the work; nothing if a stage is not Kinora's own, since it may do all of it.
std::vector<Stage> own_graph(const Registry& registry, const std::vector<const ComponentUse*>& stages) {
  const StageGraph graph = stage_graph(stages, [](const ComponentUse&, const std::string&) {});
  const std::set<std::string> own = own_stages(registry);
  std::vector<Stage> out(stages.size());
  for (const size_t number : graph.order) {
    const auto spec = registry.find(stages[number]->id);
    if (!spec || !own.contains(stages[number]->id)) return {};
    out[number].use = stages[number];
    out[number].spec = *spec;
    for (const size_t from : graph.from[number]) {
      out[number].before.insert(from);
      out[number].before.insert(out[from].before.begin(), out[from].before.end());
    }
  }
  if (graph.order.size() < stages.size()) out.clear();
  return out;
}

void check_after_cut(const Stage& stage, const Stage& cutter, const Finding& doubt) {
  const std::string name = stage.use->called(), first = cutter.use->called();
  if (stage.cuts())
    doubt(*stage.use, name + " cuts the clips of " + first + " once more; leave one of them out");
  else if (stage.is("shots"))
    doubt(*stage.use, name + " finds shots in the clips that " + first + " has cut; put it before " + first);
}

void check_merge(const Stage& stage, const std::vector<Stage>& all, const Finding& problem) {
  const std::string name = stage.option("name").get<std::string>();
  const bool is_made = std::any_of(stage.before.begin(), stage.before.end(), [&](size_t i) {
    return all[i].is("embed.") && all[i].option("name") == name;
  });
  if (!is_made)
    problem(*stage.use, stage.use->called() + " compares the embeddings '" + name +
                            "' of shots, and no stage before it makes them; put embed.classic before it" +
                            (name == "classic" ? "" : ", with name = \"" + name + "\""));
}

// Doubts a filter of which no option bounds anything.
void check_bounds(const Stage& stage, const Finding& doubt) {
  std::string bounds;
  for (const auto& option : stage.spec->options) {
    if (!option.is_bound) continue;
    if (!no_bound(stage.option(option.name.c_str()))) return;
    bounds += (bounds.empty() ? "" : " or ") + option.name;
  }
  if (!bounds.empty() && stage.option("mode") == "on")
    doubt(*stage.use, stage.use->called() + " has no bound and drops nothing; set " + bounds + ", or mode = \"score\"");
}

}  // namespace

void check_order(const Registry& registry, const std::vector<const ComponentUse*>& stages, const Finding& problem,
                 const Finding& doubt) {
  const std::vector<Stage> all = own_graph(registry, stages);
  for (const auto& stage : all) {
    for (const size_t i : stage.before) {
      if (all[i].cuts()) check_after_cut(stage, all[i], doubt);
      if (stage.cuts() && all[i].is("caption."))
        doubt(*all[i].use, all[i].use->called() + " describes whole films, which " + stage.use->called() +
                               " cuts afterwards; put it behind " + stage.use->called());
    }
    if (stage.is("shots.merge")) check_merge(stage, all, problem);
    check_bounds(stage, doubt);
  }
}

}  // namespace kinora::core
