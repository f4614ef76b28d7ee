// What the jobs of a run left in their folders. Nothing in it is trusted: members may be missing or of
// another type, lines broken, files cut off; readers give what there is and never throw for what they find.
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
  std::string file, toml;      // the run file's name and text
  int64_t seed = 0;
  std::vector<JobRecord> jobs;

  std::vector<const JobRecord*> of_kind(std::string_view kind) const;
};

// Sets `summary` and `missing` from the folder.
void read_summary(JobRecord&);

// Members of an object, if it is one and they are of the type.
std::optional<double> number_at(const json& object, const char* key);
int64_t count_at(const json& object, const char* key);  // 0 if there is none
std::string text_at(const json& object, const char* key);
const json& object_at(const json& object, const char* key);  // an empty object if there is none
std::vector<double> numbers_at(const json& object, const char* key);

// A whole file; nothing if it cannot be read or is larger.
std::optional<std::string> read_file(const std::filesystem::path& file,
                                     uint64_t at_most = uint64_t{64} << 20);

struct Lines {
  std::vector<json> objects;
  int64_t broken = 0;  // lines that are no JSON objects: a process died while it wrote
  bool found = false;
};
Lines read_lines(const std::filesystem::path& file);

// metrics.jsonl: by name the values by step. A step that was done twice, because a run went on from a
// checkpoint, counts as it was done last. What is not a finite number is left out.
using Metrics = std::map<std::string, std::map<double, double>>;
Metrics read_metrics(const JobRecord&);

// Files NAME_0.EXTENSION, or all with the extension, by name.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, std::string_view extension);

}  // namespace kinora::core::report
