// What people decided about clips after a curate job: edits.jsonl in the job's folder, which the studio writes.
//
//   {"key": "film-0003", "time": "2025-03-01T12:00:00Z", "author": "ada",
//    "set": {"caption": "A boat at sea.", "keep": false, "reason": "watermark"}}
//
// Each line sets what it has; of two about one member the later one counts, and null takes it back. "of" says which footage
// the line is about, as far as the clip's facts do (subject_of): another curation may give the key to other footage.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace kinora::core {

struct Edit {
  std::optional<std::string> caption;
  std::optional<bool> keep;
  std::string reason, author;  // author of the last line
};

// What the facts say of which film and which of its frames a sample is: its `sha256`, `first_frame` and `end_frame`.
nlohmann::json subject_of(const nlohmann::json& facts);

// Whether both are about the same footage as far as both say.
bool is_same_subject(const nlohmann::json& a, const nlohmann::json& b);

struct Edits {
  std::map<std::string, Edit> by_key;
  int64_t of_others = 0;  // lines that are about other footage than their key is now
};

// By key; empty if there is no such file. A last line without its end was being written when its writer was killed and does
// not count; any other line that cannot be read throws kinora::Error(KINORA_DATA) that says where and why.
// subject: of what has the key now, null if nothing has; where it is empty, or a line has no "of", any line counts.
Edits read_edits(const std::filesystem::path& file,
                 const std::function<nlohmann::json(const std::string& key)>& subject = {});

}  // namespace kinora::core
