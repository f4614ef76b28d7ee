// What became of the inputs of curate jobs: items.jsonl in memory, or journal.jsonl of a job at work, without
// what only one item at a time needs.
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

// `dir` itself if it is a curate job's folder, else the curate jobs directly in it, by name.
// Throws Error KINORA_NOT_FOUND if there is none.
std::vector<JobFolder> curate_jobs(const std::filesystem::path& dir);

// Where the items of a job are read from.
enum class Source : uint8_t {
  items,    // it has ended
  journal,  // it is at work: what has ended so far
  stored,   // neither file is there: the clips in its folder data
};
Source source_of(const JobFolder&);

struct Catalogue {
  std::vector<JobFolder> jobs;
  std::vector<Clip> clips;
  // Every number of the items by name ("duration_s", "scores.filter.blur"), one value a clip; NaN: it has
  // none.
  std::map<std::string, std::vector<double>> columns;
  std::unordered_map<std::string, size_t> by_id;
  std::vector<nlohmann::json>
      usage;               // a job: {STAGE: {"requests", "prompt_tokens", ...}}, as summary.json has it
  int64_t unreadable = 0;  // lines
  // Of films whose files have one name: what tells them apart, by id.
  std::unordered_map<std::string, std::string> places;

  const Clip* find(const std::string& id) const;
  double value(const std::string& column, size_t clip) const;
  std::string film_of(const Clip&) const;  // the id of the film that it is, or is of
  // Where its film lies, "monday/tape.mp4", if a film of another folder has the same name; else "".
  std::string place_of(const Clip&) const;
};

// A key that two lines have is the later line's. What dedup jobs beside a job leave out is marked.
Catalogue read_catalogue(const std::vector<JobFolder>& jobs);

// Changes when read_catalogue would read something else.
std::string stamp_of(const std::vector<JobFolder>& jobs);

// The whole item as items.jsonl has it, facts and shots included. Throws Error KINORA_IO.
nlohmann::json item_of(const Catalogue&, const Clip&);

// The stored file KEY.FIELD of a clip if it is there, in the job's data folder and by no link.
std::filesystem::path stored_file(const Catalogue&, const Clip&, const std::string& field);

// What there is to see: the clip itself, or else the film that it is a part of, if that is a local file with
// the ending of a film. Empty path: nothing.
struct Media {
  std::filesystem::path path;
  bool is_film = false;   // the clip is the range start_s to end_s of it
  const char* type = "";  // its Content-Type
  std::string ending =
      {};  // ".mts", in lower case: of a film that is there, its path may be empty for that ending
};
Media media_of(const Catalogue&, const Clip&);

}  // namespace kinora::studio
