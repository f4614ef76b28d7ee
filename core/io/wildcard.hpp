// Matches file names by pattern: "*", "?" and "[..]" within a name, as in the shell, and "**" for any number
// of folders. Names that begin with a dot match only patterns that contain the dot.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kinora::core {

bool is_pattern(std::string_view text);

// Both are '/'-separated and relative to the same folder.
bool matches(std::string_view pattern, std::string_view path);

// Splits a pattern: the folder before its first wildcard ("videos/" of "videos/**/*.mp4", with its slash; empty
// if there is none), and the rest.
struct SplitPattern {
  std::string folder, rest;
};
SplitPattern split_pattern(std::string_view pattern);

// The regular local files that an absolute pattern matches, sorted; `unreadable` receives the folders on the
// way that cannot be read. "**" does not follow links to folders, which may form cycles.
std::vector<std::string> local_files_matching(const std::string& pattern,
                                              std::vector<std::string>& unreadable);

}  // namespace kinora::core
