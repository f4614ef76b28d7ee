#include <algorithm>

#include <fmt/ranges.h>

#include "core/run/job_stages.hpp"
#include "core/run/run_reading.hpp"

namespace kinora::core {
namespace {

class SlotReader {
 public:
  explicit SlotReader(RunReading& all) : all_(all) {}

  SlotsRead read(const std::string& pointer, const json& table, JobSpec& job) {
    for (const Slot& slot : job.kind->slots) {
      const std::string at = pointer + "/" + slot.name;
      const json given = table.value(slot.name, json());
      if (given.is_null()) {
        if (take_from_run_or_input(slot, job)) continue;
        if (!slot.use.empty()) {
          read_default(at, slot, job);
        } else if (slot.required) {
          all_.problem(job.at, "job '" + job.name + "' needs " + slot.name + " = " +
                                   (slot.list ? "[ ... ]" : "\"...\"") + ": a " + slot.kind + ", one of " +
                                   fmt::format("{}", fmt::join(all_.registry.ids(slot.kind), ", ")));
        }
      } else if (slot.list && given.is_array()) {
        for (size_t i = 0; i < given.size(); ++i) read_one(at + "/" + std::to_string(i), given[i], slot, job);
        if (given.empty() && slot.required)
          all_.problem(all_.doc.value(at), "'" + slot.name + "' must not be empty");
        if (slot.kind == "parallel") refuse_twice(slot, job);
        if (slot.kind == "stage") check_graph(slot, job);
      } else {
        read_one(at, given, slot, job);
      }
    }
    return std::move(read_);
  }

 private:
  void read_one(const std::string& pointer, const json& given, const Slot& slot, JobSpec& job) {
    json component = given;
    std::string name;
    std::optional<std::vector<std::string>> from;
    if (slot.list && slot.kind == "stage") take_place(pointer, component, name, from);
    const size_t before = all_.problems.size();
    std::optional<ComponentUse> use;
    if (!is_of_another_job(pointer, component, slot))
      use = read_component(all_.doc, all_.registry, pointer, slot.kind, all_.run.file.parent_path(),
                           all_.problems, component);
    if (!use) {
      read_.lacks_component = true;
      return;
    }
    if (all_.problems.size() > before) read_.unsound.push_back(job.components.size());
    use->slot = slot.name;
    use->name = std::move(name);
    use->from = std::move(from);
    job.components.push_back(std::move(*use));
  }

  // Takes the run's engine, or the same slot's component of the first input of the kind `slot.from`. False: neither.
  bool take_from_run_or_input(const Slot& slot, JobSpec& job) const {
    if (slot.name == "engine" && all_.engine) return job.components.push_back(*all_.engine), true;
    for (const size_t input : job.inputs)
      if (const JobSpec& other = all_.run.jobs[input]; other.kind->name == slot.from)
        if (const auto* use = other.component(slot.name)) return job.components.push_back(*use), true;
    return false;
  }

  // The component comes from the slot's default, not from the file: a problem in it says where the file can set it.
  void read_default(const std::string& pointer, const Slot& slot, JobSpec& job) {
    const size_t before = all_.problems.size();
    read_one(pointer, json(slot.use), slot, job);
    for (size_t i = before; i < all_.problems.size(); ++i) {
      all_.problems[i].at = job.at;
      all_.problems[i].message += "; job '" + job.name + "' leaves " + slot.name + " out: " + slot.help;
    }
  }

  // "dedup.semantic" works on all clips of a job together, so it needs a job of kind dedup: its state ends
  // with a run, while a curate job continues video by video. True, with a problem, if `given` is such a stage
  // or the name of a kind of job.
  bool is_of_another_job(const std::string& pointer, const json& given, const Slot& slot) {
    const json use = given.is_object() ? given.value("use", json()) : given;
    if (!slot.list || slot.kind != "stage" || !use.is_string()) return false;
    auto name = use.get<std::string>();
    if (name.starts_with("stage/")) name.erase(0, 6);
    for (const auto& id : all_.registry.ids("job")) {
      const auto found = all_.registry.find(id);
      if (!found) continue;
      const ComponentSpec& kind = **found;
      const std::string& own = kind.name;
      const bool is_its_stage = name.starts_with(own + ".") &&
                                std::any_of(kind.slots.begin(), kind.slots.end(), [&](const Slot& s) {
                                  return s.name == own && s.kind == "stage";
                                });
      if (!is_its_stage && (name != own || all_.registry.find("stage", name))) continue;
      all_.problem(all_.doc.value(given.is_object() ? pointer + "/use" : pointer),
                   (is_its_stage ? "stage '" + name + "' works on all results of a job"
                                 : "'" + name + "' is not a stage") +
                       "; make it a job of its own: [[job]] kind = \"" + own +
                       "\", with this job's name as its input");
      return true;
    }
    return false;
  }

  // Takes a stage's `name` and `from`, which are not options of its component. A component with an option
  // `name` receives it as well.
  void take_place(const std::string& pointer, json& component, std::string& name,
                  std::optional<std::vector<std::string>>& from) {
    if (!component.is_object()) return;
    const json use = component.value("use", json());
    const auto spec = use.is_string() ? all_.registry.find("stage", use.get<std::string>())
                                      : Result<const ComponentSpec*>(fail(KINORA_ERROR_NOT_FOUND, "no use"));
    name = all_.text(pointer, component, "name", "");
    if (!spec || !(*spec)->option("name")) component.erase("name");
    if (!component.contains("from") || (spec && (*spec)->option("from"))) return;
    json given = component["from"];
    component.erase("from");
    if (given.is_string()) given = json::array({given});
    const bool names = given.is_array() &&
                       std::all_of(given.begin(), given.end(), [](const json& n) { return n.is_string(); });
    if (!names)
      return all_.problem(all_.doc.value(pointer + "/from"),
                          "'from' must be the name of a stage or a list of names, found " + given.dump());
    from = given.get<std::vector<std::string>>();
  }

  // Reports unknown names and cycles.
  void check_graph(const Slot& slot, const JobSpec& job) {
    stage_graph(job.list(slot.name), [&](const ComponentUse& stage, const std::string& message) {
      all_.problem(stage.at, "job '" + job.name + "': " + message);
    });
  }

  // A strategy composes with others, not with itself: a second recompute would run blocks a third time.
  void refuse_twice(const Slot& slot, const JobSpec& job) {
    std::set<std::string> seen;
    for (const auto* use : job.list(slot.name))
      if (!seen.insert(use->id).second)
        all_.problem(use->at,
                     "job '" + job.name + "': " + slot.name + ": " + use->id +
                         " is listed twice; a strategy composes only with other strategies, so remove one");
  }

  RunReading& all_;
  SlotsRead read_;
};

}  // namespace

SlotsRead read_slots(RunReading& all, const std::string& pointer, const json& table, JobSpec& job) {
  return SlotReader(all).read(pointer, table, job);
}

}  // namespace kinora::core
