// What people decided about clips after a curate job: edits.jsonl in the job's folder, which the studio writes.
//
//   {"key": "film-0003", "time": "2025-03-01T12:00:00Z", "author": "ada",
//    "set": {"caption": "A boat at sea.", "keep": false, "reason": "watermark"}}
//
// Each line sets what it has; of two about one member the later one counts, and null takes it back.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace kinora::core {

struct Edit {
  std::optional<std::string> caption;
  std::optional<bool> keep;
  std::string reason, author;  // author of the last line
};

// By key; empty if there is no such file. A last line without its end was being written when its writer was killed and does
// not count; any other line that cannot be read throws kinora::Error(KINORA_DATA) that says where and why.
std::map<std::string, Edit> read_edits(const std::filesystem::path& file);

}  // namespace kinora::core
