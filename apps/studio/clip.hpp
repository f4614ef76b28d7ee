// One item of a curate job, as listed by the studio.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace kinora::studio {

enum class End : uint8_t { kept, filtered, failed };

constexpr const char* name_of(End end) {
  return end == End::kept ? "kept" : end == End::filtered ? "filtered" : "failed";
}

struct Clip {
  std::string id;  // "JOB/KEY"
  std::string key;
  std::string film;  // key of its source video; "" for an input video
  std::string stage, reason, caption, url;
  End end = End::kept;
  bool is_film = false;   // an input of the job; else made by a stage
  bool consumed = false;  // an input video that was cut into clips, which are shown instead
  double score = std::nan("");
  std::string copy_of;    // key of the clip or video that it is a copy of; "": not a copy
  std::string copy_rule;  // rule by which a dedup job leaves it out as a copy; "": it is not left out
  double copy_score = std::nan("");
  std::vector<std::string> copies;  // ids of the clips that a dedup job leaves out as copies of this one
  size_t job = 0;
  uint64_t line_at = 0, line_size = 0;  // its line in items.jsonl; size 0: the file does not exist yet
  bool in_record = false;               // line_at is its id in the job's record instead: the job is running
};

// Outcome, including the dedup jobs that follow the clip's own job: "kept", "filtered", "failed" or "copy".
inline const char* outcome_of(const Clip& clip) {
  return clip.copy_rule.empty() ? name_of(clip.end) : "copy";
}

}  // namespace kinora::studio
