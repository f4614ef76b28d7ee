#include "plugins/jobs/curation/listing.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <sys/stat.h>

#include "core/io/wildcard.hpp"
#include "core/plugin/host.hpp"

namespace kinora::core {
namespace {

// Deeper than any local path can be; bucket keys are bounded too.
constexpr int kDeepest = 2048;

bool is_link(const std::string& url) {
  std::error_code error;
  return !is_remote(url) && std::filesystem::is_symlink(url, error);
}

class Walk {
 public:
  Walk(Io& io, Look look, LeftOut& left_out) : io_(io), look_(look), left_out_(left_out) {}

  void add(const std::string& folder, int depth) {
    for (const auto& entry : or_throw(io_.list(folder))) {
      if (entry.name.empty()) continue;
      const std::string url = folder + (folder.ends_with('/') ? "" : "/") + entry.name;
      if (entry.name.front() == '.') {
        ++left_out_.hidden;
      } else if (!entry.folder && !look_.all_files && is_no_film(entry.name)) {
        ++left_out_.endings[ending_of(entry.name)];
      } else if (!entry.folder) {
        found.push_back({url, entry.size, entry.modified, ""});
      } else if (look_.recursive) {
        add_below(url, depth + 1);
      } else {
        ++left_out_.folders;
      }
    }
  }

  std::vector<FoundFile> found;

 private:
  void add_below(const std::string& folder, int depth) {
    if (is_link(folder)) {
      ++left_out_.links;
      return;
    }
    try {
      if (depth > kDeepest) throw Error(KINORA_UNSUPPORTED, folder + ": folders nest too deep");
      add(folder + "/", depth);
    } catch (const Error& e) {
      if (e.code() == KINORA_CANCELLED || e.code() == KINORA_NO_MEMORY) throw;
      if (is_unanswered(folder, e.code())) throw;
      found.push_back({folder, 0, 0, e.what()});
    }
  }

  Io& io_;
  const Look look_;
  LeftOut& left_out_;
};

// Where a listing goes, and which names are wanted.
struct Wanted {
  const std::string& folder;
  std::set<std::string> names;
  std::vector<FoundFile> found;
};

int32_t take_wanted(void* user, const kinora_entry* entry) {
  auto& wanted = *static_cast<Wanted*>(user);
  int32_t status = KINORA_OK;
  const int32_t failed = guard([&] {
    if (entry->folder || wanted.names.erase(std::string(view(entry->name))) == 0) return;
    wanted.found.push_back(
        {wanted.folder + std::string(view(entry->name)), entry->size, entry->modified, ""});
    if (wanted.names.empty()) status = KINORA_END;  // a bucket may hold a million more
  });
  return failed != KINORA_OK ? failed : status;
}

}  // namespace

bool is_remote(std::string_view url) {
  const auto uri = parse_uri(url);
  return uri && uri->scheme != "file";
}

std::string ending_of(std::string_view name) {
  std::string ending = std::filesystem::path(name).extension().string();
  for (auto& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending;
}

int64_t LeftOut::no_films() const {
  int64_t sum = 0;
  for (const auto& [ending, count] : endings) sum += count;
  return sum;
}

std::string folders_below(int64_t count) {
  return count == 1 ? "1 folder below is not read; recursive = true reads it"
                    : fmt::format("{} folders below are not read; recursive = true reads them", count);
}

bool is_no_film(std::string_view name) {
  constexpr std::array<std::string_view, 31> kEndings{
      ".txt",  ".md",   ".json", ".jsonl", ".csv",  ".tsv", ".toml", ".yaml", ".yml",  ".xml", ".html",
      ".log",  ".srt",  ".vtt",  ".ass",   ".nfo",  ".jpg", ".jpeg", ".png",  ".webp", ".bmp", ".tif",
      ".tiff", ".npy",  ".pdf",  ".md5",   ".sha256", ".part", ".crdownload", ".aria2", ".tmp"};
  return std::find(kEndings.begin(), kEndings.end(), ending_of(name)) != kEndings.end();
}

std::vector<FoundFile> files_in(Io& io, const std::string& folder, Look look, LeftOut& out) {
  Walk walk(io, look, out);
  walk.add(folder, 0);
  return std::move(walk.found);
}

bool is_unanswered(const std::string& url, int32_t code) {
  return code == KINORA_IO || (is_remote(url) && (code == KINORA_TIMEOUT || code == KINORA_INVALID));
}

std::vector<FoundFile> files_matching(Io& io, const std::string& pattern, LeftOut& left_out) {
  std::vector<FoundFile> out;
  if (!is_remote(pattern)) {
    std::vector<std::string> unreadable;
    for (const auto& file : local_files_matching(pattern, unreadable)) out.push_back(found_file(file));
    for (const auto& folder : unreadable)
      out.push_back({folder, 0, 0, folder + ": the folder cannot be read; fix its permissions"});
    return out;
  }
  const auto [folder, rest] = split_pattern(pattern);
  const bool deep = rest.find('/') != std::string::npos || rest.find("**") != std::string::npos;
  const int64_t folders = left_out.folders;
  const auto files = files_in(io, folder, {deep, true}, left_out);
  left_out.folders = folders;  // the pattern does not cover their contents
  for (auto file : files) {
    if (file.url == pattern) return {file};
    if (!file.error.empty() || matches(rest, std::string_view(file.url).substr(folder.size())))
      out.push_back(std::move(file));
  }
  return out;
}

std::vector<FoundFile> files_named(Io& io, const std::string& folder, const std::set<std::string>& names) {
  const Uri uri = or_throw(parse_uri(folder));
  const auto store = or_throw(io.store(uri.scheme));
  Wanted wanted{folder, names, {}};
  const int32_t status = store->table->list(store->self, str(uri.path), &wanted, take_wanted);
  if (status != KINORA_END && status != KINORA_NOT_FOUND) or_throw(from_abi(status, folder));
  return std::move(wanted.found);
}

FoundFile found_file(const std::string& url) {
  FoundFile out{url, 0, 0, ""};
  struct stat info {};
  if (is_remote(url) || ::stat(url.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return out;
  out.size = static_cast<uint64_t>(info.st_size);
  out.modified = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  return out;
}

}  // namespace kinora::core
