#include "core/run/run_file.hpp"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/suggest.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job.hpp"
#include "core/run/job_stages.hpp"
#include "core/run/run_reading.hpp"
#include "core/run/unknown_option.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Whether each of the file's jobs is the one called `only` or an earlier job that it depends on; all of them
// if none has the name.
std::vector<bool> needed_jobs(const json& jobs, const std::string& only) {
  std::vector<bool> needed(jobs.is_array() ? jobs.size() : 0);
  std::set<json> names{only};
  for (size_t i = needed.size(); i-- > 0;) {
    if (!jobs[i].is_object()) continue;
    const json inputs = jobs[i].value("input", json());
    needed[i] = names.contains(jobs[i].value("name", jobs[i].value("kind", json())));
    if (needed[i] && inputs.is_array()) names.insert(inputs.begin(), inputs.end());
    if (needed[i]) names.insert(inputs);
  }
  if (std::find(needed.begin(), needed.end(), true) == needed.end()) needed.assign(needed.size(), true);
  return needed;
}

class RunReader {
 public:
  RunReader(const Document& doc, Registry& registry, OptionsOfWeights of_weights,
            std::vector<Diagnostic>& problems)
      : all_{doc, registry, problems}, of_weights_(of_weights) {}

  // only: see read_run().
  RunFile read(const std::string& only) {
    all_.run.file = fs::absolute(all_.doc.name());
    all_.run.registry = &all_.registry;
    known_keys("", all_.doc.root(), {"run", "job", "storage"});
    read_head();
    all_.run.storages = read_storages(all_.doc, all_.registry, all_.run.file.parent_path(), all_.problems);
    const json jobs = all_.doc.root().value("job", json::array());
    if (!jobs.is_array() || jobs.empty())
      all_.problem(all_.doc.key("/job"), "a run needs at least one [[job]]");
    const std::vector<bool> needed = needed_jobs(jobs, only);
    for (size_t i = 0; i < needed.size(); ++i) {
      const size_t before = all_.problems.size();
      read_job("/job/" + std::to_string(i), jobs[i]);
      if (!needed[i]) all_.problems.resize(before);
    }
    return std::move(all_.run);
  }

 private:
  void known_keys(const std::string& pointer, const json& table, const std::vector<std::string>& known) {
    for (const auto& [key, value] : table.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        all_.problem(all_.doc.key(pointer + "/" + key),
                     "unknown key '" + key + "'" + did_you_mean(key, known));
  }

  void read_head() {
    const json head = all_.doc.root().value("run", json::object());
    if (!head.is_object()) return all_.problem(all_.doc.key("/run"), "'run' must be a table");
    known_keys("/run", head, {"name", "out", "seed", "log", "engine"});
    all_.run.name = all_.text("/run", head, "name", all_.run.file.stem().string());
    all_.run.out = fs::absolute(all_.text("/run", head, "out", "runs/" + all_.run.name)).lexically_normal();
    all_.run.log_level = all_.text("/run", head, "log", "info");
    if (const auto status = check_log_level(all_.run.log_level); !status)
      all_.problem(all_.doc.value("/run/log"), status.failure().message);
    if (head.contains("engine")) {
      all_.engine = read_component(all_.doc, all_.registry, "/run/engine", "engine",
                                   all_.run.file.parent_path(), all_.problems, head["engine"]);
      if (all_.engine) all_.engine->slot = "engine";
    }
    if (head.contains("seed")) {
      if (head["seed"].is_number_integer() && head["seed"].get<int64_t>() >= 0) {
        all_.run.seed = head["seed"];
      } else {
        all_.problem(all_.doc.value("/run/seed"),
                     "'seed' must be an integer of at least 0, found " + head["seed"].dump());
      }
    }
  }

  void read_job(const std::string& pointer, const json& given) {
    json table = given;
    JobSpec job;
    const size_t before = all_.problems.size();
    job.at = all_.doc.key(pointer);
    if (!table.is_object()) return all_.problem(job.at, "a job must be a table");
    const std::string kind = all_.text(pointer, table, "kind", "");
    const auto found = all_.registry.find("job", kind);
    if (!found) {
      all_.unread.insert(all_.text(pointer, table, "name", kind));
      if (table.contains("kind"))
        return all_.problem(all_.doc.value(pointer + "/kind"), found.failure().message);
      std::string kinds;
      for (const auto& id : all_.registry.ids("job"))
        kinds += (kinds.empty() ? "" : ", ") + id.substr(id.find('/') + 1);
      return all_.problem(job.at, "a job needs a kind: " + kinds);
    }
    job.kind = *found;
    job.name = all_.text(pointer, table, "name", kind);
    check_name(pointer, job);
    read_inputs(all_, pointer, table, job);
    // Components and options that only the folder gives are missing now: errors about them would mislead.
    if (!take_pipeline(pointer, table, job)) {
      read_options(pointer, table, job);
      all_.unread.insert(job.name);
      return;
    }
    if (!table.is_array()) return complete_job(pointer, given, table, std::move(job), before);
    job.group = job.name;
    for (const json& one : table) {
      job.name = one.at("name");
      check_name(pointer, job);
      complete_job(pointer, given, one, job, before);
    }
  }

  // given, table: the job's table as the file has it, and completed from its pipeline. before: number of
  // problems before this job's.
  void complete_job(const std::string& pointer, const json& given, const json& table, JobSpec job,
                    size_t before) {
    const SlotsRead slots = read_slots(all_, pointer, table, job);
    read_options(pointer, table, job);
    if (all_.problems.size() == before) complete_from_folders(pointer, table, job);
    const std::string place = given.contains("pipeline") ? "pipeline" : "input";
    for (const auto& [key, value] : table.items())
      job.places[key] = all_.doc.value(pointer + "/" + (given.contains(key) ? key : place));
    job.sound = job.sound && all_.problems.size() == before;
    if (!job.sound) leave_out_unsound(slots, job);
    all_.run.jobs.push_back(std::move(job));
  }

  // Kinds of all jobs upstream of this one, direct and indirect.
  std::set<std::string> kinds_before(const JobSpec& job) const {
    std::set<std::string> out;
    for (const size_t input : job.inputs) {
      out.insert(all_.run.jobs[input].kind->name);
      out.merge(kinds_before(all_.run.jobs[input]));
    }
    return out;
  }

  // Completes the job's table from the folder of its published pipeline. False, with a problem, if it cannot be read.
  bool take_pipeline(const std::string& pointer, json& table, JobSpec& job) {
    if (!job.kind->option("pipeline")) return true;
    const bool is_given = table.contains("pipeline");
    try {
      if (!is_given) take_over_pipeline(table, job);
      const json folder = table.value("pipeline", json());
      if (!folder.is_string() || folder == "") return true;
      std::vector<Problem> of_others;  // of options that the folder is about to give
      const auto path =
          Options::make(*job.kind, {{"pipeline", folder}}, of_others, all_.run.file.parent_path());
      table = job_type(all_.registry, *job.kind)
                  .from_pipeline(job.kind->name, job.name, table,
                                 path.values().at("pipeline").get<std::string>(), kinds_before(job));
    } catch (const Error& e) {
      all_.problem(all_.doc.value(pointer + (is_given ? "/pipeline" : "/input")), e.what());
      return false;
    }
    return true;
  }

  void take_over_pipeline(json& table, const JobSpec& job) {
    for (const size_t input : job.inputs) {
      const JobSpec& other = all_.run.jobs[input];
      if (text_in(other.options, "pipeline").empty() ||
          !job_type(all_.registry, *job.kind).takes_pipeline_of(table, other))
        continue;
      table["pipeline"] = other.options.at("pipeline");
      log_info("{}: pipeline = {}, as job '{}' has it", job.name, table["pipeline"].dump(), other.name);
      return;
    }
  }

  // check_jobs still checks the components of an unsound job one by one, if their own options are right.
  // Checks of all components together happen here.
  void leave_out_unsound(const SlotsRead& slots, JobSpec& job) {
    std::vector<const ComponentUse*> stages;
    for (const auto& use : job.components)
      if (use.id.starts_with("stage/")) stages.push_back(&use);
    if (!slots.lacks_component)
      for (const auto& message : isolation_problems(job, stages))
        all_.problem(job.component("engine")->at, "job '" + job.name + "': " + message);
    for (auto i = slots.unsound.rbegin(); i != slots.unsound.rend(); ++i)
      job.components.erase(job.components.begin() + static_cast<std::ptrdiff_t>(*i));
  }

  void check_name(const std::string& pointer, const JobSpec& job) {
    if (const auto status = check_job_name(job.name); !status)
      all_.problem(all_.doc.value(pointer + "/name"), status.failure().message);
    for (const auto& other : all_.run.jobs)
      if (other.is_called(job.name))
        all_.problem(all_.doc.value(pointer + "/name"),
                     "two jobs have the name '" + job.name + "'; rename one");
  }

  void read_options(const std::string& pointer, const json& table, JobSpec& job) {
    json given = json::object();
    std::vector<std::string> known{"name", "kind", "input"};
    for (const auto& slot : job.kind->slots) known.push_back(slot.name);
    for (const auto& [key, value] : table.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      if (job.kind->option(key)) {
        given[key] = value;
      } else {
        all_.problem(all_.doc.key(pointer + "/" + key), "unknown option '" + key + "' of " + job.kind->id +
                                                            hint_for_unknown(all_.registry, job, key, value));
      }
    }
    std::vector<Problem> found;
    job.options = Options::make(*job.kind, given, found, all_.run.file.parent_path()).values();
    for (const auto& p : found) all_.problem(place_of(pointer, p), p.message);
  }

  // Completes options that the file omits from the config.json of a folder of weights.
  void complete_from_folders(const std::string& pointer, const json& table, JobSpec& job) {
    for (ComponentUse& use : job.components) {
      const auto slot = std::find_if(job.kind->slots.begin(), job.kind->slots.end(),
                                     [&](const Slot& s) { return s.name == use.slot; });
      if (slot->weights.empty()) continue;
      json given = table.value(use.slot, json());
      given = given.is_object() ? given : json::object();
      given.erase("use");
      std::vector<fs::path> weights;
      for (const auto& path : job.options.at(slot->weights)) weights.emplace_back(path.get<std::string>());
      try {
        const auto& spec = *or_throw(all_.registry.find(use.id));
        if (const json all = of_weights_(all_.registry, spec, given, weights); all != given)
          use.options = or_throw(Options::make(spec, all, all_.run.file.parent_path()));
      } catch (const Error& e) {
        all_.problem(all_.doc.value(pointer + "/" + slot->weights), e.what());
      }
    }
  }

  Location place_of(const std::string& pointer, const Problem& p) const {
    return all_.doc.value(pointer + "/" + p.path.substr(0, p.path.find('[')));
  }

  RunReading all_;
  const OptionsOfWeights of_weights_;
};

}  // namespace

std::string RunReading::text(const std::string& pointer, const json& table, const std::string& key,
                             const std::string& fallback) {
  if (!table.contains(key)) return fallback;
  if (table[key].is_string()) return table[key];
  problem(doc.value(pointer + "/" + key), "'" + key + "' must be a string, found " + table[key].dump());
  return fallback;
}

Status check_job_name(const std::string& name) {
  const auto ok = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; };
  if (!name.empty() && std::all_of(name.begin(), name.end(), ok)) return {};
  return fail(
      KINORA_ERROR_INVALID,
      "a job's name is also its folder's name: only letters, digits, '-' and '_' are allowed, found '{}'",
      name);
}

const Location& JobSpec::place(const std::string& option) const {
  const auto it = places.find(option);
  return it == places.end() ? at : it->second;
}

const ComponentUse* JobSpec::component(const std::string& slot) const {
  for (const auto& c : components)
    if (c.slot == slot) return &c;
  return nullptr;
}

std::vector<const ComponentUse*> JobSpec::list(const std::string& slot) const {
  std::vector<const ComponentUse*> out;
  for (const auto& c : components)
    if (c.slot == slot) out.push_back(&c);
  return out;
}

bool JobSpec::draws() const {
  return kind->draws ||
         std::any_of(components.begin(), components.end(), [](const ComponentUse& use) { return use.draws; });
}

bool JobSpec::reads_folders() const { return std::ranges::count(kind->reads, "folder") > 0; }

RunFile read_run(const Document& doc, Registry& registry, OptionsOfWeights of_weights,
                 std::vector<Diagnostic>& problems, const std::string& only) {
  return RunReader(doc, registry, of_weights, problems).read(only);
}

}  // namespace kinora::core
