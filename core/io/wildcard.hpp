// File names by pattern: "*", "?" and "[..]" within a name, as the shell has them, and "**" for any number of
// folders. Names that begin with a dot match only patterns that say the dot.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kinora::core {

bool is_pattern(std::string_view text);

// Both are '/'-separated and relative to the same folder.
bool matches(std::string_view pattern, std::string_view path);

// A pattern in two: the folder before its first wildcard ("films/" of "films/**/*.mp4", with its slash; empty
// if there is none), and the rest.
struct SplitPattern {
  std::string folder, rest;
};
SplitPattern split_pattern(std::string_view pattern);

// The regular files of this machine that an absolute pattern matches, sorted; `unreadable` gets the folders
// on the way that cannot be read. "**" follows no links to folders, which may lead in circles.
std::vector<std::string> local_files_matching(const std::string& pattern,
                                              std::vector<std::string>& unreadable);

}  // namespace kinora::core
