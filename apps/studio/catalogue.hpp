// Outcomes of the inputs of curate jobs: items.jsonl in memory, or the record of a running job, without the parts
// that are needed for only one item at a time.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/studio/clip.hpp"

namespace kinora::studio {

struct JobFolder {
  std::string name;
  std::filesystem::path path;
};

// `dir` itself if it is a curate job's folder, else the curate jobs directly inside it, sorted by name.
// Throws Error KINORA_NOT_FOUND if there is none.
std::vector<JobFolder> curate_jobs(const std::filesystem::path& dir);

// The file that the items of a job are read from.
enum class Source : uint8_t {
  items,    // the job has ended
  record,  // the job is running: the items that have ended so far
  stored,   // neither file exists: the clips in the job's folder data
};
Source source_of(const JobFolder&);

struct Catalogue {
  std::vector<JobFolder> jobs;
  std::vector<Clip> clips;
  // Every number of the items by name ("duration_s", "scores.filter.blur"), one value per clip; NaN: the clip does not
  // have it.
  std::map<std::string, std::vector<double>> columns;
  std::unordered_map<std::string, size_t> by_id;
  std::vector<nlohmann::json>
      usage;               // per job: {STAGE: {"requests", "prompt_tokens", ...}}, as in summary.json
  int64_t unreadable = 0;  // number of lines
  // For videos with equal file names: the part of the path that tells them apart, by id.
  std::unordered_map<std::string, std::string> places;

  const Clip* find(const std::string& id) const;
  double value(const std::string& column, size_t clip) const;
  std::string film_of(const Clip&) const;  // id of the clip's source video, or the item's own if it is a video
  // Where its source video is stored, "monday/tape.mp4", if a video in another folder has the same name; else "".
  std::string place_of(const Clip&) const;
};

// If two lines have the same key, the later one counts. Marks the clips that dedup jobs of the same run leave out.
Catalogue read_catalogue(const std::vector<JobFolder>& jobs);

// Changes if read_catalogue would now give a different result.
std::string stamp_of(const std::vector<JobFolder>& jobs);

// The whole item as stored in items.jsonl, facts and shots included. Throws Error KINORA_IO.
nlohmann::json item_of(const Catalogue&, const Clip&);

// The stored file KEY.FIELD of a clip, if it exists in the job's data folder and is not reached through a link.
std::filesystem::path stored_file(const Catalogue&, const Clip&, const std::string& field);

// The file to play for a clip: the clip itself, or else its source video, if that is a local file with the ending of a
// video. Empty path: there is none.
struct Media {
  std::filesystem::path path;
  bool is_film = false;   // path is the source video; the clip is its range start_s to end_s
  const char* type = "";  // its Content-Type
  std::string ending =
      {};  // ".mts", in lower case, if the video exists; the path is empty for an ending that is not played
};
Media media_of(const Catalogue&, const Clip&);

}  // namespace kinora::studio
