// Reads what the jobs of a run left in their folders. Nothing is trusted: members may be missing or of
// another type, lines broken, files cut off; readers return what they can read and never throw for bad
// contents.
#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/jobs/report/scores.hpp"

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
  json scores =
      json::object();   // titles and units of scores that its stages state: {NAME: {"title", "unit"}}
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

// Reads `scores` and `summary` from the folder, or sets `missing`.
void read_results(JobRecord&);

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
  int64_t broken = 0;  // lines that are not JSON objects, as left by a process that died while writing
  bool found = false;
};
Lines read_lines(const std::filesystem::path& file);

// metrics.jsonl: values by step, by name. If a step was repeated after a run resumed from a checkpoint, its
// last value counts. Leaves out values that are not finite.
using Metrics = std::map<std::string, std::map<double, double>>;
Metrics read_metrics(const JobRecord&);

// Files NAME_0.EXTENSION, or all with the extension, sorted by name.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, std::string_view extension);

// An input or a clip of a curate job with its outcome.
struct Item {
  std::string key, parent, end, stage, reason, caption, url;
  std::string of;                 // of a copy: the input with the same bytes
  std::string damaged;            // what is broken in an input's media, whatever its outcome
  bool consumed = false;          // cut into clips
  std::optional<double> score;    // score of a filtered sample
  json bound;                     // the bound that it violated: ["at most", 0.33]; null: unknown
  int64_t first = -1, last = -1;  // frames [first, last) of the video; -1: unknown
  int width = 0, height = 0;
};

struct Shot {
  int64_t first = 0, last = 0;  // frames [first, last)
  std::optional<double>
      score;  // of the cut with which it begins; nothing at the start, or if it is not known
  std::vector<const Item*> clips;
};

struct SourceVideo {
  Item item;
  double fps = 0;
  int64_t frames = 0;
  std::vector<double> scores;  // one per frame
  std::vector<Shot> shots;
  std::vector<std::pair<int64_t, int64_t>>
      fades;                       // frames [first, last) of gradual changes, which are in no clip
  std::vector<const Item*> loose;  // clips that are in no known shot
  std::deque<Item> clips;

  double seconds(int64_t frame) const { return fps > 0 ? static_cast<double>(frame) / fps : 0; }
  int64_t clips_that(std::string_view end) const;
  // Whether all frames of the shot are in a fade.
  bool is_fade(const Shot&) const;
};

// The shot detector whose scores a curate job keeps.
struct Detector {
  std::string name;  // content, adaptive, ...; empty: unknown
  std::optional<double> threshold;
};

struct Curation {
  std::deque<SourceVideo> videos;
  bool found = false;  // items.jsonl exists
  int64_t broken = 0;  // number of its lines that could not be read
  Detector detector;
  double edge_crop = 0;  // seconds that a clip leaves out at each cut
  Scores scores;
};

// The videos of a curate job with their shots and the clips made from each, read from items.jsonl; videos by
// key, clips by their first frame. Reads the file once, line by line.
Curation read_curation(const JobRecord&);

}  // namespace kinora::core::report
