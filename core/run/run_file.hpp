// Reads and checks a whole run file, and reports every error at once, each with its place and a suggestion.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/document.hpp"
#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "core/run/data_input.hpp"

namespace kinora::core {

// A component with its options complete.
struct ComponentUse {
  std::string slot;
  std::string id;       // "sampler/edm-heun"
  Options options;      // all options of the manifest, checked
  std::string version;  // of the plugin
  Location at;          // where the file names it
  // For a stage in a list: its name for other stages, "" if the file gives none; and the stages whose output
  // it takes, nullopt if the file gives none (then the one before it).
  std::string name{};
  std::optional<std::vector<std::string>> from{};
  bool draws = false;   // what it makes depends on the run's seed
  int64_t results = 1;  // ComponentSpec::results: part of the job's identity

  // The stage's name, else its component's.
  std::string called() const { return name.empty() ? id.substr(id.find('/') + 1) : name; }
};

struct JobSpec {
  std::string name;
  std::string group;  // the name of a table that stands for several jobs, of which it is one; else ""
  const ComponentSpec* kind = nullptr;
  std::vector<size_t> inputs;      // earlier jobs
  std::vector<std::string> paths;  // files and folders, absolute, patterns expanded, and URIs; in order
  std::optional<DataInput> data;   // an input that is a table; its paths are among inputs and paths too
  nlohmann::json options;          // of the kind, complete
  std::vector<ComponentUse> components;
  Location at;
  // When a result is reproduced: its record of weights and components; not part of the identity.
  nlohmann::json made_with;
  std::map<std::string, Location> places;  // of the values that the file gives, by key
  bool sound = true;                       // nothing was found wrong in reading it

  // The place of an option in the file; that of the job if the file omits the option.
  const Location& place(const std::string& option) const;
  const ComponentUse* component(const std::string& slot) const;
  std::vector<const ComponentUse*> list(const std::string& slot) const;
  bool is_called(const std::string& asked) const {
    return asked == name || (!group.empty() && asked == group);
  }
  // Whether its results depend on the run's seed.
  bool draws() const;
  // Whether its paths are folders of finished jobs of other runs.
  bool reads_folders() const;
};

// Ensures that a job's name is one folder below the run's. KINORA_ERROR_INVALID otherwise.
Status check_job_name(const std::string& name);

struct RunFile {
  Registry* registry = nullptr;  // the registry used to read the file; outlives the run
  std::filesystem::path file;
  std::string name, log_level = "info";
  std::filesystem::path out;  // absolute
  int64_t seed = 0;
  std::vector<JobSpec> jobs;
  std::vector<ComponentUse> storages;  // slot: the scheme
};

// A component's options, completed by what its weights say; throws kinora::Error. with_weights() in
// host/weights/weights.hpp is the one.
using OptionsOfWeights = nlohmann::json (*)(Registry&, const ComponentSpec&, nlohmann::json given,
                                            const std::vector<std::filesystem::path>& weights);

// Reads the document into a run. Problems are added to `problems`; the run must not be run if there are any.
// only: the name of the job that alone will run, with those that it depends on: the problems of the others are
// left out. Empty: all jobs.
RunFile read_run(const Document&, Registry&, OptionsOfWeights, std::vector<Diagnostic>& problems,
                 const std::string& only = "");

// Turns on the option `profile` of every engine that has one.
void profile_engines(RunFile&, const Registry&);

// Reads a slot's value: a name, or a table with `use` and options.
std::optional<ComponentUse> read_component(const Document&, const Registry&, const std::string& pointer,
                                           const std::string& kind, const std::filesystem::path& base,
                                           std::vector<Diagnostic>& problems, const nlohmann::json& given);

}  // namespace kinora::core
