// Which kept clips of a curate job do not go into shards, and why: people rejected them, or a later job found
// them to be copies.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "plugins/jobs/curation/edit_history.hpp"

namespace kinora::core {

struct Drop {
  std::string rule, reason, of;  // of: the clip that it is a copy of
  double score = 0;
  nlohmann::json clip = {}, of_clip = {};  // subject_of both when that was decided, as far as its line says
};

// A person's word goes before any rule's: what is rejected in the studio joins the drops, by rule
// studio.reject, and what was marked to be kept leaves them.
void apply_edits(const EditHistory& edits, std::map<std::string, Drop>& drops);

// Of decisions.jsonl of a dedup job, {"key", "end", "rule", "score", "of", "clip"} a line: everything that it did not
// keep. Throws kinora::Error if the file cannot be read.
std::map<std::string, Drop> drops_in(const std::filesystem::path& decisions);

// Reads the same file: copies that take the place of a rejected clip, with that clip.
std::map<std::string, std::string> replacements_in(const std::filesystem::path& decisions);

// Takes out those about other footage than their clips have now, and copies of what is gone or has other footage. How many
// of clips that are there.
size_t take_outdated(std::map<std::string, Drop>& drops, const EditHistory::Subject& clips);

}  // namespace kinora::core
