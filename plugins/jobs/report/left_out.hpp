// The clips that select and dedup jobs left out, with why.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/jobs/report/pictures.hpp"

namespace kinora::core::report {

struct LeftOutClip {
  std::string key, rule, of;    // of: the clip of which it is a copy, or ""
  std::optional<double> score;  // of a copy: how alike they are
};

// Later jobs repeat what earlier ones left out: a clip belongs to the first job that left it out. Copies that people
// accepted in the studio are not left out.
struct LeftOut {
  std::map<std::string, std::vector<LeftOutClip>>
      of_jobs;                                        // by the name of the job, as in its decisions.jsonl
  std::map<std::string, std::set<std::string>> keys;  // by the name of the curate job
};
LeftOut left_out_by(const RunRecord&);

// [{"rule", "more", "list": [{"key", "of", "score", "picture", "picture_of"}]}], the first few of each rule. score: how
// alike copies are, or the number that the condition compares; null: none. Pictures as Media has them, or null.
json left_out_data(Pictures&, const JobRecord& curate, const std::vector<LeftOutClip>& clips);

// The file of the clip's moving preview; nothing: there is none, or it is too large.
std::optional<std::string> preview_of(const JobRecord& curate, const std::string& key);

}  // namespace kinora::core::report
