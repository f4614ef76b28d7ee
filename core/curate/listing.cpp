#include "core/curate/listing.hpp"

#include <filesystem>

#include <sys/stat.h>

#include "core/curate/wildcard.hpp"

namespace kinora::core {
namespace {

// More than any path of this machine can have; a bucket's keys are bounded too.
constexpr int kDeepest = 2048;

bool is_link(const std::string& url) {
  std::error_code error;
  return !is_remote(url) && std::filesystem::is_symlink(url, error);
}

void add_files(Io& io, const std::string& folder, bool recursive, int depth, std::vector<FoundFile>& out) {
  for (const auto& entry : or_throw(io.list(folder))) {
    if (entry.name.empty() || entry.name.front() == '.') continue;
    const std::string url = folder + (folder.ends_with('/') ? "" : "/") + entry.name;
    if (!entry.folder) {
      out.push_back({url, entry.size, entry.modified});
    } else if (recursive && depth < kDeepest && !is_link(url)) {
      add_files(io, url + "/", true, depth + 1, out);
    }
  }
}

}  // namespace

bool is_remote(std::string_view url) {
  const auto uri = parse_uri(url);
  return uri && uri->scheme != "file";
}

std::vector<FoundFile> files_in(Io& io, const std::string& folder, bool recursive) {
  std::vector<FoundFile> out;
  add_files(io, folder, recursive, 0, out);
  return out;
}

std::vector<FoundFile> files_matching(Io& io, const std::string& pattern) {
  std::vector<FoundFile> out;
  if (!is_remote(pattern)) {
    for (const auto& file : local_files_matching(pattern)) out.push_back(found_file(file));
    return out;
  }
  const auto [folder, rest] = split_pattern(pattern);
  const bool deep = rest.find('/') != std::string::npos || rest.find("**") != std::string::npos;
  for (auto& file : files_in(io, folder, deep))
    if (matches(rest, std::string_view(file.url).substr(folder.size()))) out.push_back(std::move(file));
  return out;
}

FoundFile found_file(const std::string& url) {
  FoundFile out{url};
  struct stat info {};
  if (is_remote(url) || ::stat(url.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return out;
  out.size = static_cast<uint64_t>(info.st_size);
  out.modified = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  return out;
}

}  // namespace kinora::core
