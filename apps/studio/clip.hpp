// One item of a curate job as the studio lists it.
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
  std::string film;  // key of the film it was cut from; "" for a film
  std::string stage, reason, caption, url;
  End end = End::kept;
  bool is_film = false;   // an input of the job; else a stage has made it
  bool consumed = false;  // a film of which clips were made: it is shown as its clips
  double score = std::nan("");
  std::string copy_of;    // key of the clip or film that it is a copy of; "": of none
  std::string copy_rule;  // by which a dedup job leaves it out as such; "": none does
  double copy_score = std::nan("");
  std::vector<std::string> copies;  // ids of those that a dedup job leaves out as copies of it
  size_t job = 0;
  uint64_t line_at = 0, line_size = 0;  // its line of items.jsonl; size 0: there is no such file yet
  bool in_journal = false;              // its line is in journal.jsonl instead: the job is at work
};

// What became of it, the dedup jobs after its own included: "kept", "filtered", "failed" or "copy".
inline const char* outcome_of(const Clip& clip) {
  return clip.copy_rule.empty() ? name_of(clip.end) : "copy";
}

}  // namespace kinora::studio
