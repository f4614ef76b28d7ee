// Reads what the jobs of a run left in their folders. Nothing is trusted: members may be missing or of
// another type, lines broken, files cut off; readers return what they can read and never throw for bad
// contents.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core::report {

using json = nlohmann::json;

struct ComponentRecord {
  std::string slot, id, version;
  json options = json::object();
};

struct JobRecord {
  std::string name, kind;
  std::filesystem::path folder;
  json options = json::object(), summary = json::object();
  std::string missing;  // why there is no summary; empty: the job is done
  std::vector<ComponentRecord> components;

  bool done() const { return missing.empty(); }
};

struct RunRecord {
  std::string title, version;  // of Kinora
  std::string file, toml;      // name and text of the run file
  int64_t seed = 0;
  std::vector<JobRecord> jobs;

  std::vector<const JobRecord*> of_kind(std::string_view kind) const;
};

// Reads `summary` from the folder, or sets `missing`.
void read_summary(JobRecord&);

// Members of an object, if it is an object and they have the expected type.
std::optional<double> number_at(const json& object, const char* key);
int64_t count_at(const json& object, const char* key);  // 0 if missing
std::string text_at(const json& object, const char* key);
const json& object_at(const json& object, const char* key);  // an empty object if missing
std::vector<double> numbers_at(const json& object, const char* key);

// A whole file; nothing if it cannot be read or is larger.
std::optional<std::string> read_file(const std::filesystem::path& file,
                                     uint64_t at_most = uint64_t{64} << 20);

struct Lines {
  std::vector<json> objects;
  int64_t broken = 0;  // number of lines that are not JSON objects, as left by a process that died while writing
  bool found = false;
};
Lines read_lines(const std::filesystem::path& file);

// metrics.jsonl: values by step, by name. If a step was repeated after a run resumed from a checkpoint, its
// last value counts. Leaves out values that are not finite.
using Metrics = std::map<std::string, std::map<double, double>>;
Metrics read_metrics(const JobRecord&);

// Files NAME_0.EXTENSION, or all with the extension, sorted by name.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, std::string_view extension);

}  // namespace kinora::core::report
