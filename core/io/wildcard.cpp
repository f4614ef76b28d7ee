#include "core/io/wildcard.hpp"

#include <algorithm>
#include <filesystem>
#include <fnmatch.h>

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    out.emplace_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return out;
}

// reached[j]: the names so far match the first j of the pattern. So a hostile pattern costs at most the
// product of the two lengths.
bool names_match(const std::vector<std::string>& pattern, const std::vector<std::string>& names) {
  std::vector<char> reached(pattern.size() + 1, 0);
  reached[0] = 1;
  const auto skip_any = [&] {
    for (size_t j = 0; j < pattern.size(); ++j)
      if (reached[j] && pattern[j] == "**") reached[j + 1] = 1;
  };
  skip_any();
  for (const auto& name : names) {
    std::vector<char> next(reached.size(), 0);
    for (size_t j = 0; j < pattern.size(); ++j) {
      if (!reached[j]) continue;
      if (pattern[j] == "**") {
        if (name.front() != '.') next[j] = 1;
      } else if (fnmatch(pattern[j].c_str(), name.c_str(), FNM_PERIOD) == 0) {
        next[j + 1] = 1;
      }
    }
    reached = std::move(next);
    skip_any();
  }
  return reached.back() != 0;
}

}  // namespace

bool is_pattern(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

bool matches(std::string_view pattern, std::string_view path) {
  const auto names = names_in(path);
  const bool whole = std::none_of(names.begin(), names.end(), [](const auto& n) { return n.empty(); });
  return whole && names_match(names_in(pattern), names);
}

SplitPattern split_pattern(std::string_view pattern) {
  const size_t wild = std::min(pattern.find_first_of("*?["), pattern.size());
  const size_t slash = pattern.substr(0, wild).rfind('/');
  const size_t cut = slash == std::string_view::npos ? 0 : slash + 1;
  return {std::string(pattern.substr(0, cut)), std::string(pattern.substr(cut))};
}

std::vector<std::string> local_files_matching(const std::string& pattern,
                                              std::vector<std::string>& unreadable) {
  const auto [top, rest] = split_pattern(pattern);
  const bool deep = rest.find('/') != std::string::npos || rest.find("**") != std::string::npos;
  std::vector<std::string> out;
  std::vector<fs::path> folders{top};
  while (!folders.empty()) {
    const fs::path folder = std::move(folders.back());
    folders.pop_back();
    std::error_code error, ignored;
    fs::directory_iterator at(folder, error);
    for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
      const fs::path path = at->path();
      const fs::file_type type = at->status(ignored).type();
      // A dangling link, or one to a missing disk: the input is unavailable, not gone.
      const bool is_unseen = (type == fs::file_type::not_found || type == fs::file_type::none) &&
                             fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
      if (type == fs::file_type::directory) {
        if (deep && path.filename().string().front() != '.' && !at->is_symlink(ignored))
          folders.push_back(path);
      } else if ((type == fs::file_type::regular || is_unseen) &&
                 matches(rest, path.lexically_relative(top).string())) {
        out.push_back(path.lexically_normal().string());
      }
    }
    if (error && error != std::errc::no_such_file_or_directory) unreadable.push_back(folder.string());
  }
  std::sort(out.begin(), out.end());
  std::sort(unreadable.begin(), unreadable.end());
  return out;
}

}  // namespace kinora::core
