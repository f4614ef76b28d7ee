// A run file, read and checked whole: every error at once, each with its place and a suggestion.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/config/document.hpp"
#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"

namespace kinora::core {

// A component with its options complete.
struct ComponentUse {
  std::string slot;
  std::string id;       // "sampler/edm-heun"
  Options options;      // all of the manifest's, checked
  std::string version;  // of the plugin: part of the job's identity
  Location at;          // where the file names it
  // Of a stage in a list: what others call it, "" where the file does not say; and whose output it takes, nothing where
  // the file does not say (then the one before it).
  std::string name{};
  std::optional<std::vector<std::string>> from{};

  // What it is called: by its name, else by its component's.
  std::string called() const { return name.empty() ? id.substr(id.find('/') + 1) : name; }
};

struct JobSpec {
  std::string name;
  const ComponentSpec* kind = nullptr;
  std::vector<size_t> inputs;      // earlier jobs
  std::vector<std::string> paths;  // files and folders, absolute, patterns expanded, and URIs; in order
  nlohmann::json options;          // of the kind, complete
  std::vector<ComponentUse> components;
  Location at;
  // Of a result that is to be made again, what it says of its weights and components; no part of the
  // identity.
  nlohmann::json made_with;
  std::map<std::string, Location> places;  // of the values that the file gives, by key
  bool sound = true;                       // nothing was found wrong in reading it
  mutable std::string paths_identity;      // of the files behind `paths`, once job_digest() has looked at them

  // Where an option stands; the job itself for one that the file leaves out.
  const Location& place(const std::string& option) const;
  const ComponentUse* component(const std::string& slot) const;
  std::vector<const ComponentUse*> list(const std::string& slot) const;
};

// A name stays one folder below the run's. KINORA_INVALID.
Status check_job_name(const std::string& name);

struct RunFile {
  Registry* registry = nullptr;  // that the file was read with; it outlives the run
  std::filesystem::path file;
  std::string name, log_level = "info";
  std::filesystem::path out;  // absolute
  int64_t seed = 0;
  std::vector<JobSpec> jobs;
  std::vector<ComponentUse> storages;  // slot: the scheme
};

// Reads the document into a run. Any problem is added to `problems`, and the run is then not to be run.
RunFile read_run(const Document&, Registry&, std::vector<Diagnostic>& problems);

// Turns on the option `profile` of every engine that has one.
void profile_engines(RunFile&, const Registry&);

// One slot's value: a name, or a table with `use` and options.
std::optional<ComponentUse> read_component(const Document&, const Registry&, const std::string& pointer,
                                           const std::string& kind, const std::filesystem::path& base,
                                           std::vector<Diagnostic>& problems, const nlohmann::json& given);

}  // namespace kinora::core
