// The curate jobs of a folder: the outcomes of their inputs (items.jsonl in memory, or the record of a
// running job), without the parts that are needed for only one item at a time; each item's files; and the
// progress of a running job.
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/jobs/curation/edits.hpp"

namespace kinora::studio {

constexpr const char* kOfUser = "user.";  // facts of people's tables, whose numbers are often texts

enum class End : uint8_t { kept, filtered, failed };

constexpr const char* name_of(End end) {
  return end == End::kept ? "kept" : end == End::filtered ? "filtered" : "failed";
}

// One item of a curate job, as listed by the studio.
struct Clip {
  std::string id;  // "JOB/KEY"
  std::string key;
  std::string video;  // key of its source video; "" for an input video
  std::string stage, reason, caption, url;
  std::vector<std::string> tags;  // its fact "tags"
  std::string footage;            // subject_of its facts, as JSON; "": they say nothing
  End end = End::kept;
  bool is_video = false;  // an input video of the job; else made by a stage, or a picture
  bool is_picture = false;
  bool consumed = false;  // an input video that was cut into clips, which are shown instead
  double score = std::nan("");
  std::string copy_of;    // key of the clip or video that it is a copy of; "": not a copy
  std::string copy_rule;  // rule by which a dedup job leaves it out as a copy; "": it is not left out
  double copy_score = std::nan("");
  std::string copy_why;  // "copy of sea-0007: cosine 0.9987, motion 0.97 alike"; "": the job has not said
  double bound = std::nan("");      // the one that filtered it, if its stage has noted it
  bool is_most = false;             // the bound is the largest value that is kept; else the smallest
  std::vector<std::string> copies;  // ids of the clips that a dedup job leaves out as copies of this one
  struct LeftOut {
    size_t by;         // place in Catalogue::choosers
    std::string rule;  // the condition that does not hold, "count"
  };
  std::vector<LeftOut> left_out;  // by select jobs
  bool is_chosen = true;          // by the last select job of one chain of them at least
  size_t job = 0;
  uint64_t line_at = 0, line_size = 0;  // its line in items.jsonl; size 0: the file does not exist yet
  bool in_record = false;               // line_at is its id in the job's record instead: the job is running
};

// Outcome, including the dedup and select jobs that follow the clip's own job: "kept", "filtered", "failed", "copy" or
// "unchosen".
inline const char* outcome_of(const Clip& clip) {
  if (!clip.copy_rule.empty()) return "copy";
  return clip.end == End::kept && !clip.is_chosen ? "unchosen" : name_of(clip.end);
}

struct JobFolder {
  std::string name;
  std::filesystem::path path;
};

// A select job that chooses among the clips of a curate job.
struct Chooser {
  size_t job;               // the curate job
  std::string name, where;  // its own
};

// `dir` itself if it is a curate job's folder, else the curate jobs directly inside it, sorted by name.
// Throws Error KINORA_ERROR_INVALID if there is none.
std::vector<JobFolder> curate_jobs(const std::filesystem::path& dir);

// The file that the items of a job are read from.
enum class Source : uint8_t {
  items,   // the job has ended
  record,  // the job is running: the items that have ended so far
  stored,  // neither file exists: the clips in the job's folder data
};
Source source_of(const JobFolder&);

// Whether the job has not ended, and results that it or another job had made there are kept until it has.
bool begins_anew(const JobFolder&);
// Throws Error KINORA_ERROR_NOT_FOUND if the job's folder is gone. While a job moves its earlier results,
// they alone may be there.
void require_folder(const JobFolder&);

// A fact that is a text, and which of its few values each clip has.
struct Facet {
  static constexpr size_t kMost = 12, kLongest = 80;  // values, and bytes of one
  std::vector<std::string> values;
  std::vector<uint8_t> of;  // by clip: place in `values`, from 1; 0: none
  bool is_of_many = false;  // it has more values or longer ones, and the others are empty
  bool is_whole = false;    // every clip has one of the values, or no such fact; consumed videos may differ
};

struct Catalogue {
  std::vector<JobFolder> jobs;
  std::vector<Clip> clips;
  // Every number of the items by name ("duration_s", "scores.filter.blur"), one value per clip; NaN: the clip
  // does not have it.
  std::map<std::string, std::vector<double>> columns;
  std::set<std::string> texts;  // names of facts that are texts
  std::map<std::string, Facet> facets;
  // Names of facts that some clip has as something else than a number that a double holds. Texts of user.*
  // that are numbers are in `columns`, too.
  std::set<std::string> others;
  std::vector<Chooser> choosers;                          // each after those whose clips it reads
  std::unordered_map<std::string, nlohmann::json> added;  // facts that select jobs have added to clips, by id
  std::unordered_map<std::string, size_t> by_id;
  std::vector<nlohmann::json>
      usage;  // by job: {STAGE: {"requests", "prompt_tokens", ...}}, as in summary.json
  nlohmann::json scores =
      nlohmann::json::object();  // {NAME: {"title", "unit"}}, as stages state them; either may be ""
  int64_t unreadable = 0;        // number of lines
  // For videos with equal file names: the part of the path that tells them apart, by id.
  std::unordered_map<std::string, std::string> places;

  const Clip* find(const std::string& id) const;
  double value(const std::string& column, size_t clip) const;
  // The id of the clip's source video, or the item's own if it is a video.
  std::string video_of(const Clip&) const;
  // Where its source video is stored, "monday/tape.mp4", if a video in another folder has the same name; else
  // "".
  std::string place_of(const Clip&) const;
};

// If two lines have the same key, the later one counts. Marks the clips that dedup and select jobs of the
// same run leave out, and adds the facts of select jobs.
Catalogue read_catalogue(const std::vector<JobFolder>& jobs);

// Changes if read_catalogue would now give a different result.
std::string stamp_of(const std::vector<JobFolder>& jobs);

// Footage of the clip (core::subject_of), as edits record it.
nlohmann::json footage_of(const Clip&);

// The clips that a job has kept, like core::kept_in without reading a file per clip. Refers to the catalogue.
core::Footage kept_in(const Catalogue&, size_t job);

// The whole item as stored in items.jsonl, shots included, with the facts that select jobs have added. Throws Error
// KINORA_ERROR_IO.
nlohmann::json item_of(const Catalogue&, const Clip&);

// The stored file KEY.FIELD of a clip, if it exists in the job's data folder and is not reached through a
// link.
std::filesystem::path stored_file(const Catalogue&, const Clip&, const std::string& field);

// A file to play or show.
struct Media {
  std::filesystem::path path;
  bool is_video = false;  // path is the source video; the clip is its range start_s to end_s
  const char* type = "";  // its Content-Type
  // ".mts", in lower case, if the video exists; the path is empty for an ending that is not played.
  std::string ending = {};
};
// The stored clip or picture itself. Empty path: it is not stored.
Media stored_media(const Catalogue&, const Clip&);
// The same, or else its source video or picture, if that is a local file with the ending of one. Empty path: there is
// none.
Media media_of(const Catalogue&, const Clip&);

// The progress that a job reports: {"job", "done", "age_s": seconds since it was written, "figures":
// live.json unchanged, "summary": summary.json unchanged, "failure": why its last run failed, or "", "usage":
// requests of its stages to servers so far, by stage}. null if the folder has neither file, or both are
// unreadable. usage: of the job's items so far, for a job that has no summary yet.
nlohmann::json live_of(const JobFolder&, const nlohmann::json& usage);

}  // namespace kinora::studio
