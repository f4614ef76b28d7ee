#include "core/run/run_file.hpp"

#include <algorithm>
#include <set>

#include "core/base/log.hpp"
#include "core/base/suggest.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job.hpp"
#include "core/run/job_folder.hpp"
#include "core/run/job_stages.hpp"
#include "core/run/unknown_option.hpp"
#include "core/run/weights.hpp"

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

// Reads one run file; every method records the problems it finds and continues.
class RunReader {
 public:
  RunReader(const Document& doc, Registry& registry, std::vector<Diagnostic>& problems)
      : doc_(doc), registry_(registry), problems_(problems) {}

  // only: see read_run().
  RunFile read(const std::string& only) {
    run_.file = fs::absolute(doc_.name());
    run_.registry = &registry_;
    known_keys("", doc_.root(), {"run", "job", "storage"});
    read_head();
    run_.storages = read_storages(doc_, registry_, run_.file.parent_path(), problems_);
    const json jobs = doc_.root().value("job", json::array());
    if (!jobs.is_array() || jobs.empty()) problem(doc_.key("/job"), "a run needs at least one [[job]]");
    const std::vector<bool> needed = needed_jobs(jobs, only);
    for (size_t i = 0; i < needed.size(); ++i) {
      const size_t before = problems_.size();
      read_job("/job/" + std::to_string(i), jobs[i]);
      if (!needed[i]) problems_.resize(before);
    }
    return std::move(run_);
  }

 private:
  void problem(Location at, std::string message) { problems_.push_back({std::move(at), std::move(message)}); }

  void known_keys(const std::string& pointer, const json& table, const std::vector<std::string>& known) {
    for (const auto& [key, value] : table.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        problem(doc_.key(pointer + "/" + key), "unknown key '" + key + "'" + did_you_mean(key, known));
  }

  // The string at `key`, or `fallback`; a problem if it is of another type.
  std::string text(const std::string& pointer, const json& table, const std::string& key,
                   const std::string& fallback) {
    if (!table.contains(key)) return fallback;
    if (table[key].is_string()) return table[key];
    problem(doc_.value(pointer + "/" + key), "'" + key + "' must be a string, found " + table[key].dump());
    return fallback;
  }

  void read_head() {
    const json head = doc_.root().value("run", json::object());
    if (!head.is_object()) return problem(doc_.key("/run"), "'run' must be a table");
    known_keys("/run", head, {"name", "out", "seed", "log"});
    run_.name = text("/run", head, "name", run_.file.stem().string());
    run_.out = fs::absolute(text("/run", head, "out", "runs/" + run_.name)).lexically_normal();
    run_.log_level = text("/run", head, "log", "info");
    if (const auto status = check_log_level(run_.log_level); !status)
      problem(doc_.value("/run/log"), status.failure().message);
    if (head.contains("seed")) {
      if (head["seed"].is_number_integer() && head["seed"].get<int64_t>() >= 0) {
        run_.seed = head["seed"];
      } else {
        problem(doc_.value("/run/seed"),
                "'seed' must be an integer of at least 0, found " + head["seed"].dump());
      }
    }
  }

  void read_job(const std::string& pointer, const json& given) {
    json table = given;
    JobSpec job;
    const size_t before = problems_.size();
    unsound_.clear();
    lacks_component_ = false;
    job.at = doc_.key(pointer);
    if (!table.is_object()) return problem(job.at, "a job must be a table");
    const std::string kind = text(pointer, table, "kind", "");
    std::vector<std::string> names;
    for (const auto& id : registry_.ids("job")) names.push_back(id.substr(id.find('/') + 1));
    const bool is_known = std::find(names.begin(), names.end(), kind) != names.end();
    if (is_known) {
      const auto found = registry_.find("job", kind);
      if (!found) return problem(doc_.value(pointer + "/kind"), found.failure().message);
      job.kind = *found;
    }
    if (!job.kind) {
      unread_.insert(text(pointer, table, "name", kind));
      if (!table.contains("kind")) return problem(job.at, "a job needs a kind: " + joined(names));
      return problem(
          doc_.value(pointer + "/kind"),
          "unknown kind '" + kind + "'" + did_you_mean(kind, names) + " (kinds: " + joined(names) + ")");
    }
    job.name = text(pointer, table, "name", kind);
    check_name(pointer, job);
    read_inputs(pointer, table, job);
    take_pipeline(pointer, table, job);
    read_slots(pointer, table, job);
    read_options(pointer, table, job);
    if (problems_.size() == before) complete_from_folders(pointer, table, job);
    for (const auto& [key, value] : table.items())
      job.places[key] = doc_.value(pointer + "/" + (given.contains(key) ? key : "pipeline"));
    job.sound = job.sound && problems_.size() == before;
    if (!job.sound) leave_out_unsound(job);
    run_.jobs.push_back(std::move(job));
  }

  // Kinds of all jobs upstream of this one, direct and indirect.
  std::set<std::string> kinds_before(const JobSpec& job) const {
    std::set<std::string> out;
    for (const size_t input : job.inputs) {
      out.insert(run_.jobs[input].kind->name);
      out.merge(kinds_before(run_.jobs[input]));
    }
    return out;
  }

  // Completes the job's table from the folder of its published pipeline.
  void take_pipeline(const std::string& pointer, json& table, JobSpec& job) {
    const json folder = table.value("pipeline", json());
    if (!folder.is_string() || folder == "" || !job.kind->option("pipeline")) return;
    try {
      std::vector<Problem> of_others;  // of options that the folder is about to give
      const auto path = Options::make(*job.kind, {{"pipeline", folder}}, of_others, run_.file.parent_path());
      table = job_type(registry_, *job.kind)
                  .from_pipeline(job.kind->name, job.name, table,
                                 path.values().at("pipeline").get<std::string>(), kinds_before(job));
    } catch (const Error& e) {
      problem(doc_.value(pointer + "/pipeline"), e.what());
    }
  }

  // check_jobs still checks the components of an unsound job one by one, if their own options are right.
  // Checks of all components together happen here.
  void leave_out_unsound(JobSpec& job) {
    std::vector<const ComponentUse*> stages;
    for (const auto& use : job.components)
      if (use.id.starts_with("stage/")) stages.push_back(&use);
    if (!lacks_component_)
      for (const auto& message : isolation_problems(job, stages))
        problem(job.component("engine")->at, "job '" + job.name + "': " + message);
    for (auto i = unsound_.rbegin(); i != unsound_.rend(); ++i)
      job.components.erase(job.components.begin() + static_cast<std::ptrdiff_t>(*i));
  }

  void check_name(const std::string& pointer, const JobSpec& job) {
    if (const auto status = check_job_name(job.name); !status)
      problem(doc_.value(pointer + "/name"), status.failure().message);
    for (const auto& other : run_.jobs)
      if (other.name == job.name)
        problem(doc_.value(pointer + "/name"), "two jobs have the name '" + job.name + "'; rename one");
  }

  void read_inputs(const std::string& pointer, const json& table, JobSpec& job) {
    json inputs = table.value("input", json::array());
    const bool is_list = inputs.is_array();
    if (inputs.is_string() || inputs.is_object()) inputs = json::array({inputs});
    const Location at = doc_.value(pointer + "/input");
    if (!inputs.is_array())
      return problem(at, "'input' must be a job's name, a path or a table of data, or a list of them");
    if (inputs.empty() && job.kind->needs_input)
      problem(job.at, "job '" + job.name + "' needs an input: " + wanted(*job.kind));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string place = pointer + "/input" + (is_list ? "/" + std::to_string(i) : "");
      const Location one = doc_.value(place);
      if (inputs[i].is_object()) {
        read_data_input(place, inputs[i], job);
      } else if (!inputs[i].is_string()) {
        problem(one, "'input' must hold strings or a table, found " + inputs[i].dump());
      } else {
        read_input(one, inputs[i].get<std::string>(), job);
      }
    }
  }

  void read_data_input(const std::string& pointer, const json& table, JobSpec& job) {
    const Location at = doc_.value(pointer);
    const auto& reads = job.kind->reads;
    if (std::find(reads.begin(), reads.end(), "data") == reads.end())
      return problem(at,
                     "job kind " + job.kind->name + " takes no table of data; it reads " + wanted(*job.kind));
    if (job.data) return problem(at, "a second table of data; write one, with a blend of both");
    job.data = read_data(
        doc_, pointer, table,
        [&](const Location& place, const std::string& path) { return set_of_shards(place, path, job); },
        source_reader(doc_, registry_, run_.file.parent_path(), problems_), problems_);
  }

  // The path of a set of shards, which becomes an input of the job; "" after a problem.
  std::string set_of_shards(const Location& at, const std::string& path, JobSpec& job) {
    const size_t jobs = job.inputs.size(), paths = job.paths.size();
    if (path.find('{') != path.npos && !is_uri(path)) {  // a pattern of shards
      job.paths.push_back((run_.file.parent_path() / path).lexically_normal().string());
    } else {
      read_input(at, path, job);
    }
    if (job.inputs.size() > jobs) return (run_.out / run_.jobs[job.inputs.back()].name).string();
    if (job.paths.size() == paths + 1) return job.paths.back();
    if (job.paths.size() > paths)
      problem(at, "'" + path + "' names " + std::to_string(job.paths.size() - paths) +
                      " files and folders; a set of shards is a folder, a .tar file or a pattern such as "
                      "shard-{000000..000012}.tar");
    return "";
  }

  // Whether a job of this name stands below `job`, before which only earlier ones were read.
  bool comes_later(const std::string& name, const JobSpec& job) const {
    const json jobs = doc_.root().value("job", json::array());
    return name != job.name && std::any_of(jobs.begin(), jobs.end(), [&](const json& table) {
             return table.is_object() && table.value("name", table.value("kind", json())) == name;
           });
  }

  static std::string too_late(const std::string& name, const JobSpec& job) {
    return "job '" + name + "' comes later; move it above job '" + job.name + "'";
  }

  void read_input(const Location& at, const std::string& input, JobSpec& job) {
    const auto& reads = job.kind->reads;
    if (input.empty())
      return problem(at, "'input' is empty; it takes " + (reads.empty() ? "nothing" : wanted(*job.kind)));
    if (unread_.contains(input)) {  // the problems of that job are already reported
      job.sound = false;
      return;
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < run_.jobs.size(); ++i) {
      const auto& other = run_.jobs[i];
      names.push_back(other.name);
      if (other.name != input) continue;
      if (!reads.empty() && std::find(reads.begin(), reads.end(), other.kind->name) == reads.end())
        problem(at, "job '" + input + "' is of kind " + other.kind->name + ", but " + job.kind->name +
                        " reads " + wanted(*job.kind));
      job.inputs.push_back(i);
      return;
    }
    names.insert(names.end(), unread_.begin(), unread_.end());
    if (job.reads_folders() && input.find('/') != input.npos) return read_folder(at, input, job, names);
    if (std::find(reads.begin(), reads.end(), "path") == reads.end())
      return problem(at, comes_later(input, job)
                             ? too_late(input, job)
                             : "no earlier job is called '" + input + "'" + did_you_mean(input, names));
    if (is_uri(input)) {  // read when the job runs: a check asks no server
      if (const auto status = check_uri(registry_, input); !status) problem(at, status.failure().message);
      job.paths.push_back(input);
      return;
    }
    auto files = expand_input(run_.file, input);
    if (files.empty())
      problem(at, comes_later(input, job) ? too_late(input, job)
                                          : explain_missing_input(run_.file, input, names));
    job.paths.insert(job.paths.end(), files.begin(), files.end());
  }

  // The folder of a finished job of another run. names: of the earlier jobs.
  void read_folder(const Location& at, const std::string& input, JobSpec& job,
                   const std::vector<std::string>& names) {
    const auto found = expand_input(run_.file, input);
    if (found.empty()) return problem(at, explain_missing_input(run_.file, input, names));
    fs::path folder = found.front();
    if (!folder.has_filename()) folder = folder.parent_path();  // "runs/a/clips/"
    const std::string name = folder.filename().string();
    std::error_code error;
    if (fs::equivalent(folder.parent_path(), run_.out, error) &&
        (name == job.name || comes_later(name, job) || std::ranges::count(names, name) > 0))
      return problem(at, "'" + input + "' is a job of this file; write input = \"" + name + "\"");
    const auto wrong = found.size() > 1
                           ? "'" + input + "' matches " + std::to_string(found.size()) + " folders; give one"
                           : problem_of_results(folder, kinds_of_jobs(*job.kind));
    if (!wrong.empty()) return problem(at, wrong);
    job.paths.push_back(folder.string());
  }

  void read_slots(const std::string& pointer, const json& table, JobSpec& job) {
    for (const Slot& slot : job.kind->slots) {
      const std::string at = pointer + "/" + slot.name;
      const json given = table.value(slot.name, json());
      if (given.is_null()) {
        if (!slot.use.empty()) {
          read_default(at, slot, job);
        } else if (slot.required) {
          problem(job.at, "job '" + job.name + "' needs " + slot.name + " = " +
                              (slot.list ? "[ ... ]" : "\"...\"") + ": a " + slot.kind + ", one of " +
                              joined(registry_.ids(slot.kind)));
        }
      } else if (slot.list && given.is_array()) {
        for (size_t i = 0; i < given.size(); ++i) read_one(at + "/" + std::to_string(i), given[i], slot, job);
        if (given.empty() && slot.required) problem(doc_.value(at), "'" + slot.name + "' must not be empty");
        if (slot.kind == "parallel") refuse_twice(slot, job);
        if (slot.kind == "stage") check_graph(slot, job);
      } else {
        read_one(at, given, slot, job);
      }
    }
  }

  void read_one(const std::string& pointer, const json& given, const Slot& slot, JobSpec& job);

  // The component comes from the slot's default, not from the file: a problem in it says where the file can
  // set it.
  void read_default(const std::string& pointer, const Slot& slot, JobSpec& job) {
    const size_t before = problems_.size();
    read_one(pointer, json(slot.use), slot, job);
    for (size_t i = before; i < problems_.size(); ++i) {
      problems_[i].at = job.at;
      problems_[i].message += "; job '" + job.name + "' leaves " + slot.name + " out: " + slot.help;
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
    for (const auto& id : registry_.ids("job")) {
      const auto found = registry_.find(id);
      if (!found) continue;
      const ComponentSpec& kind = **found;
      const std::string& own = kind.name;
      const bool is_its_stage = name.starts_with(own + ".") &&
                                std::any_of(kind.slots.begin(), kind.slots.end(), [&](const Slot& s) {
                                  return s.name == own && s.kind == "stage";
                                });
      if (!is_its_stage && (name != own || registry_.find("stage", name))) continue;
      problem(doc_.value(given.is_object() ? pointer + "/use" : pointer),
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
    const auto spec = use.is_string() ? registry_.find("stage", use.get<std::string>())
                                      : Result<const ComponentSpec*>(fail(KINORA_ERROR_NOT_FOUND, "no use"));
    name = text(pointer, component, "name", "");
    if (!spec || !(*spec)->option("name")) component.erase("name");
    if (!component.contains("from") || (spec && (*spec)->option("from"))) return;
    json given = component["from"];
    component.erase("from");
    if (given.is_string()) given = json::array({given});
    const bool names = given.is_array() &&
                       std::all_of(given.begin(), given.end(), [](const json& n) { return n.is_string(); });
    if (!names)
      return problem(doc_.value(pointer + "/from"),
                     "'from' must be the name of a stage or a list of names, found " + given.dump());
    from = given.get<std::vector<std::string>>();
  }

  // Reports unknown names and cycles.
  void check_graph(const Slot& slot, const JobSpec& job) {
    stage_graph(job.list(slot.name), [&](const ComponentUse& stage, const std::string& message) {
      problem(stage.at, "job '" + job.name + "': " + message);
    });
  }

  // A strategy composes with others, not with itself: a second recompute would run blocks a third time.
  void refuse_twice(const Slot& slot, const JobSpec& job) {
    std::set<std::string> seen;
    for (const auto* use : job.list(slot.name))
      if (!seen.insert(use->id).second)
        problem(use->at,
                "job '" + job.name + "': " + slot.name + ": " + use->id +
                    " is listed twice; a strategy composes only with other strategies, so remove one");
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
        problem(doc_.key(pointer + "/" + key), "unknown option '" + key + "' of job kind " + job.kind->name +
                                                   hint_for_unknown(registry_, job, key, value));
      }
    }
    std::vector<Problem> found;
    job.options = Options::make(*job.kind, given, found, run_.file.parent_path()).values();
    for (const auto& p : found) problem(place_of(pointer, p), p.message);
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
        const auto& spec = *or_throw(registry_.find(use.id));
        if (const json all = with_weights(registry_, spec, given, weights); all != given)
          use.options = or_throw(Options::make(spec, all, run_.file.parent_path()));
      } catch (const Error& e) {
        problem(doc_.value(pointer + "/" + slot->weights), e.what());
      }
    }
  }

  Location place_of(const std::string& pointer, const Problem& p) const {
    return doc_.value(pointer + "/" + p.path.substr(0, p.path.find('[')));
  }

  static std::string joined(const std::vector<std::string>& words) {
    std::string out;
    for (const auto& w : words) out += (out.empty() ? "" : ", ") + w;
    return out;
  }
  static std::string wanted(const ComponentSpec& kind) {
    std::string out;
    for (const auto& r : kind.reads)
      out += (out.empty() ? "" : " or ") + (r == "path"     ? "a path"
                                            : r == "data"   ? "a table of data"
                                            : r == "folder" ? "the folder of such a job of another run"
                                                            : "a job of kind " + r);
    return out;
  }
  static std::vector<std::string> kinds_of_jobs(const ComponentSpec& kind) {
    auto out = kind.reads;
    std::erase_if(out, [](const std::string& r) { return r == "path" || r == "data" || r == "folder"; });
    return out;
  }

  const Document& doc_;
  Registry& registry_;
  std::vector<Diagnostic>& problems_;
  RunFile run_;
  std::set<std::string> unread_;  // names of jobs of unknown kinds
  // For the current job: indices of components with wrong options, and whether a component could not be read
  // at all.
  std::vector<size_t> unsound_;
  bool lacks_component_ = false;
};

void RunReader::read_one(const std::string& pointer, const json& given, const Slot& slot, JobSpec& job) {
  json component = given;
  std::string name;
  std::optional<std::vector<std::string>> from;
  if (slot.list && slot.kind == "stage") take_place(pointer, component, name, from);
  const size_t before = problems_.size();
  std::optional<ComponentUse> use;
  if (!is_of_another_job(pointer, component, slot))
    use = read_component(doc_, registry_, pointer, slot.kind, run_.file.parent_path(), problems_, component);
  if (!use) {
    lacks_component_ = true;
    return;
  }
  if (problems_.size() > before) unsound_.push_back(job.components.size());
  use->slot = slot.name;
  use->name = std::move(name);
  use->from = std::move(from);
  job.components.push_back(std::move(*use));
}

}  // namespace

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

RunFile read_run(const Document& doc, Registry& registry, std::vector<Diagnostic>& problems,
                 const std::string& only) {
  return RunReader(doc, registry, problems).read(only);
}

}  // namespace kinora::core
