// Which kept clips of a curate job do not go into shards, and why: people rejected them, or a later job found
// them to be copies.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "core/curate/edit_history.hpp"

namespace kinora::core {

struct Drop {
  std::string rule, reason, of;  // of: the clip that it is a copy of
  double score = 0;
};

// A person's word goes before any rule's: what is rejected in the studio joins the drops, by rule
// studio.reject, and what was marked to be kept leaves them.
void apply_edits(const EditHistory& edits, std::map<std::string, Drop>& drops);

// Of decisions.jsonl of a dedup job, {"key", "end", "rule", "score", "of"} a line: everything that it did not
// keep. Throws kinora::Error if the file cannot be read.
std::map<std::string, Drop> drops_in(const std::filesystem::path& decisions);

}  // namespace kinora::core
