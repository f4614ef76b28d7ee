// Decides which kept clips of a curate job stay out of the shards, and why: people rejected them, or a later
// job found them to be copies.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "plugins/jobs/curation/edit_history.hpp"

namespace kinora::core {

struct Drop {
  std::string rule, reason, of;  // of: key of the clip that it is a copy of
  double score = 0;
  nlohmann::json clip = {}, of_clip = {};  // subject_of both at the time of the decision, as far as the line says
};

// A person's decision overrides any rule: clips rejected in the studio are dropped by rule studio.reject, and
// clips marked to be kept are not dropped.
void apply_edits(const EditHistory& edits, std::map<std::string, Drop>& drops);

// Everything that decisions.jsonl of a dedup job did not keep; one line is {"key", "end", "rule", "score", "of",
// "clip"}. Throws kinora::Error if the file cannot be read.
std::map<std::string, Drop> drops_in(const std::filesystem::path& decisions);

// Copies that replace a rejected clip, each with that clip, from the same file.
std::map<std::string, std::string> replacements_in(const std::filesystem::path& decisions);

// Removes drops that were decided about other footage than their clips have now, and copies of clips that are gone or have
// other footage. Returns how many of them were of existing clips.
size_t take_outdated(std::map<std::string, Drop>& drops, const EditHistory::Subject& clips);

}  // namespace kinora::core
