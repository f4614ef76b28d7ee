#include "plugins/jobs/curate/stage_order.hpp"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

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

// The stages of a job, with all those before each; nothing if a stage is not Kinora's own, since it may do
// all of it.
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
    doubt(*stage.use,
          stage.use->called() + " has no bound and drops nothing; set " + bounds + ", or mode = \"score\"");
}

}  // namespace

void check_order(const Registry& registry, const std::vector<const ComponentUse*>& stages,
                 const Finding& problem, const Finding& doubt) {
  const std::vector<Stage> all = own_graph(registry, stages);
  for (const auto& stage : all) {
    for (const size_t i : stage.before) {
      if (all[i].cuts()) check_after_cut(stage, all[i], doubt);
      if (stage.cuts() && all[i].is("caption."))
        doubt(*all[i].use, all[i].use->called() + " describes whole videos, which " + stage.use->called() +
                               " cuts afterwards; put it behind " + stage.use->called());
    }
    if (stage.is("shots.merge")) check_merge(stage, all, problem);
    check_bounds(stage, doubt);
  }
}

namespace {

// The tensors of the samples that leave a stage.
struct State {
  std::set<std::string> there;
  // The change that would make a missing tensor: "set sample_fps of clip.transcode".
  std::map<std::string, std::vector<std::string>> could;
  bool doubtful = false;  // a stage that is not Kinora's own may have put more there
};

// Returns what reaches a stage on every path to it; nothing where it begins.
State before(const std::vector<size_t>& from, const std::vector<State>& after) {
  if (from.empty()) return {};
  State out = after[from.front()];
  for (const size_t other : from) {
    std::erase_if(out.there, [&](const std::string& name) { return !after[other].there.contains(name); });
    out.doubtful = out.doubtful || after[other].doubtful;
    if (other == from.front()) continue;
    for (const auto& [name, ways] : after[other].could)
      for (const auto& way : ways)
        if (auto& all = out.could[name]; std::find(all.begin(), all.end(), way) == all.end())
          all.push_back(way);
  }
  return out;
}

State after_stage(State state, const ComponentUse& use, const ComponentSpec& spec) {
  const json options = use.options.values();
  if (std::any_of(spec.outputs.begin(), spec.outputs.end(), [](const auto& t) { return t.per == "clip"; }))
    state = {};
  for (const auto& tensor : spec.outputs) {
    if (tensor.is_in_use(options))
      state.there.insert(tensor.name);
    else
      state.could[tensor.name].push_back(fmt::format("set {} of {}", tensor.when, use.called()));
  }
  return state;
}

// Stages that make it whatever their options are, but those that make it of a picture alone.
std::vector<std::string> makers_of(const Registry& registry, const std::string& tensor) {
  std::vector<std::string> out;
  for (const auto& id : registry.ids("stage")) {
    const auto found = registry.find(id);
    if (!found) continue;
    for (const auto& made : (*found)->outputs)
      if (made.name == tensor && made.when.empty() && !made.shape.starts_with("[1,"))
        out.push_back("put " + id + " before it");
  }
  return out;
}

std::vector<std::string> missing_for(const ComponentUse& use, const ComponentSpec& spec, const State& state) {
  std::vector<std::string> out;
  for (const auto& wanted : spec.inputs)
    if (!wanted.is_optional && wanted.is_in_use(use.options.values()) && !state.there.contains(wanted.name))
      out.push_back(wanted.name);
  return out;
}

// "put it after video.clips, and set sample_fps there": of stages behind this one that make samples which
// have the tensor.
std::vector<std::string> makers_behind(const Registry& registry,
                                       const std::vector<const ComponentUse*>& behind,
                                       const std::string& tensor) {
  std::vector<std::string> out;
  for (const auto* use : behind) {
    const auto spec = registry.find(use->id);
    if (!spec) continue;
    for (const auto& made : (*spec)->outputs) {
      if (made.name != tensor || made.per != "clip") continue;
      const bool is_in_use = made.is_in_use(use->options.values());
      out.push_back(fmt::format("put it after {}", use->called()) +
                    (is_in_use ? "" : fmt::format(", and set {} there", made.when)));
    }
  }
  return out;
}

// "set sample_fps of clip.transcode, or put stage/video.read before it"
std::string remedy(const Registry& registry, const std::vector<std::string>& missing, const State& state,
                   const std::vector<const ComponentUse*>& behind) {
  std::vector<std::string> ways;
  const auto add = [&](const std::string& way) {
    if (std::find(ways.begin(), ways.end(), way) == ways.end()) ways.push_back(way);
  };
  for (const auto& name : missing) {
    const auto could = state.could.find(name);
    for (const auto& way : could != state.could.end() ? could->second : makers_behind(registry, behind, name))
      add(way);
    for (const auto& way : makers_of(registry, name)) add(way);
  }
  return ways.empty() ? "put a stage before it that does" : fmt::format("{}", fmt::join(ways, ", or "));
}

}  // namespace

void check_tensors(const Registry& registry, const std::vector<const ComponentUse*>& stages,
                   const Finding& problem, const Finding& doubt) {
  const StageGraph graph = stage_graph(stages, [](const ComponentUse&, const std::string&) {});
  const std::set<std::string> own = own_stages(registry);
  std::vector<State> after(stages.size());
  for (size_t at = 0; at < graph.order.size(); ++at) {
    const size_t number = graph.order[at];
    const ComponentUse& use = *stages[number];
    State state = before(graph.from[number], after);
    const auto spec = registry.find(use.id);
    if (!spec) {
      after[number] = std::move(state);
      continue;
    }
    const std::vector<std::string> missing = missing_for(use, **spec, state);
    const bool is_own = own.contains(use.id);
    const Finding& tell = is_own && !state.doubtful ? problem : doubt;
    if (!missing.empty()) {
      std::vector<const ComponentUse*> behind;
      for (size_t later = at + 1; later < graph.order.size(); ++later)
        behind.push_back(stages[graph.order[later]]);
      tell(use,
           fmt::format("{} looks at {} of its samples, and no stage before it makes them; {}", use.called(),
                       fmt::join(missing, " and "), remedy(registry, missing, state, behind)));
    }
    state.there.insert(missing.begin(), missing.end());  // said once is enough
    after[number] = after_stage(std::move(state), use, **spec);
    after[number].doubtful = after[number].doubtful || !is_own;
  }
}

}  // namespace kinora::core
