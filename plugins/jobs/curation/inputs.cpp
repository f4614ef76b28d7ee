#include "plugins/jobs/curation/inputs.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include <sys/stat.h>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/io/byte_source.hpp"
#include "core/io/wildcard.hpp"
#include "core/plugin/host.hpp"
#include "plugins/jobs/curation/input_rows.hpp"
#include "plugins/jobs/curation/manifest.hpp"
#include "plugins/jobs/curation/text_file.hpp"
#include "plugins/jobs/listing/flat_listing.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLongestList = uint64_t{1} << 30;

bool ends_as(const std::string& path, std::initializer_list<const char*> endings) {
  return std::find(endings.begin(), endings.end(), ending_of(path)) != endings.end();
}

class Finder {
 public:
  Finder(Io& io, Look look, bool asks_remote) : io_(io), look_(look), asks_(asks_remote) {}

  // Adds one entry of the run file.
  void add(const std::string& path) {
    if (is_remote(path) && !asks_) return add_video({.url = path});
    if (ends_as(path, {".txt"})) return add_list(path);
    if (ends_as(path, {".jsonl", ".csv"})) return add_manifest(path);
    add_named(path);
  }

  std::unique_ptr<InputRows> take() {
    if (asks_) stat_remote();
    return std::move(found_);
  }
  const LeftOut& left_out() const { return left_out_; }

 private:
  // Adds a video, folder or pattern.
  void add_named(const std::string& path) {
    if (is_remote(path) && !asks_) return add_video({.url = path});
    std::error_code error;
    const bool remote = is_remote(path);
    if (path.ends_with('/') || (!remote && fs::is_directory(path, error))) return add_folder(path);
    if (is_pattern(path) && (remote || !fs::exists(path, error))) return add_matching(path);
    add_file(found_file(path));
  }

  // An object with exactly the pattern as its name is the only match.
  void add_matching(const std::string& pattern) {
    const size_t first = found_->size();
    bool is_only = false;
    files_matching(io_, pattern, left_out_, [&](const FoundFile& file) {
      if (is_only) return;
      is_only = file.url == pattern;
      if (is_only) found_->truncate(first);
      add_file(file);
    });
    if (found_->size() == first) add_none(pattern, "matches no files");
  }

  void add_folder(const std::string& path) {
    const LeftOut before = left_out_;
    const size_t first = found_->size();
    files_in(io_, path, look_, left_out_, [&](const FoundFile& file) { add_file(file); });
    if (found_->size() > first) return;
    const bool others = left_out_.not_videos() > before.not_videos();
    std::string none = others
                           ? "contains no file with the ending of a video; all_files = true takes every file"
                           : "contains no files";
    if (left_out_.pictures() > before.pictures())
      none += "; pictures = true takes its pictures, with stage picture.read";
    if (const int64_t below = left_out_.folders - before.folders; below > 0)
      none += "; " + folders_below(below);
    add_none(path, none);
  }

  void add_none(const std::string& path, const std::string& why) {
    add_video({.url = path, .error = path + ": " + why + "; fix the path" + listed_in_});
  }
  void add_file(const FoundFile& file) {
    add_video({.url = file.url, .size = file.size, .modified = file.modified, .error = file.error});
  }

  // Reads size and time of remote videos that were named one by one, with one listing per folder; without it
  // a changed video would go unnoticed.
  void stat_remote() {
    for (auto& [folder, left] : unseen_) try {
        // The folder may hold a million more.
        files_directly_in(io_, folder, [&left, this](const FoundFile& file) {
          return (left -= found_->set_file(file)) > 0;
        });
      } catch (const Error& e) {
        // Files in a folder that may not be listed may still be readable.
        if (e.code() == KINORA_ERROR_CANCELLED ||
            (is_unanswered(folder, e.code()) && e.code() != KINORA_ERROR_INVALID))
          throw;
        log_warn("{}; changes of the videos there since an earlier run cannot be detected", e.what());
      }
  }

  void add_video(const Input& input) {
    found_->add(input);
    if (input.is_unseen() && is_remote(input.url)) ++unseen_[input.url.substr(0, input.url.rfind('/') + 1)];
  }

  void add_list(const std::string& file) {
    const std::string text = or_throw(read_text_file(file, kLongestList, OtherBytes::keep));
    size_t number = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      at = end + 1;
      ++number;
      line.erase(0, line.find_first_not_of(" \t\r"));
      line.erase(line.find_last_not_of(" \t\r") + 1);
      if (line.empty() || line.front() == '#') continue;
      // Names of files may be any bytes; a list of another system has them in Windows-1252.
      if (const auto other = from_windows_1252(line);
          valid_utf8(line) != line && !is_there(line, file) && is_there(other, file))
        line = other;
      listed_in_ = fmt::format(" in line {} of {}", number, file);
      try {
        add_named(resolved(line, file));
      } catch (const Error& e) {
        if (e.code() == KINORA_ERROR_CANCELLED || is_unanswered(resolved(line, file), e.code())) throw;
        add_video({.url = resolved(line, file),
                   .error = fmt::format("{} (line {} of {})", e.what(), number, file)});
      }
    }
    listed_in_.clear();
  }

  static bool is_there(const std::string& name, const std::string& list) {
    std::error_code error;
    return fs::exists(fs::symlink_status(resolved(name, list), error));
  }

  void add_manifest(const std::string& file) {
    const std::string text = or_throw(read_text_file(file, kLongestList));
    const auto row = [&](Input input) {
      if (input.error.empty()) {
        input.url = resolved(input.url, file);
        const FoundFile found = found_file(input.url);
        input.size = found.size;
        input.modified = found.modified;
        std::error_code error;
        if (is_pattern(input.url) && !is_remote(input.url) &&
            !fs::exists(fs::symlink_status(input.url, error)))
          input.error =
              input.url + ": file not found; patterns work in lists (.txt) and in `input`, not in manifests";
      }
      add_video(input);
    };
    const size_t first = found_->size();
    for (auto& said :
         ends_as(file, {".csv"}) ? read_csv_manifest(text, file, row) : read_jsonl_manifest(text, file, row))
      left_out_.columns.push_back(std::move(said));
    left_out_.manifests.push_back({file, first, found_->size()});
  }

  // Resolves a name of a list against the list's folder.
  static std::string resolved(const std::string& name, const std::string& list) {
    const auto uri = parse_uri(name);
    if (!uri || name.starts_with("asset:") || name.find("://") != std::string::npos)
      return uri && uri->scheme == "file" ? uri->path : name;
    const size_t slash = list.rfind('/');
    if (is_remote(list)) return list.substr(0, slash + 1) + name;
    const bool is_folder = name.ends_with('/');
    const std::string path = (fs::path(list).parent_path() / name).lexically_normal().string();
    return path + (is_folder && !path.ends_with('/') ? "/" : "");
  }

  Io& io_;
  const Look look_;
  const bool asks_;
  std::string listed_in_;
  LeftOut left_out_;
  std::unique_ptr<InputRows> found_ = std::make_unique<InputRows>();
  std::map<std::string, size_t> unseen_;  // number of remote videos without size and time, by folder
};

std::unique_ptr<InputRows> found(Io& io, const std::vector<std::string>& paths, Look look, bool asks_remote,
                                 LeftOut* left_out) {
  Finder finder(io, look, asks_remote);
  for (const auto& path : paths) finder.add(path);
  auto out = finder.take();
  if (left_out) *left_out = finder.left_out();
  return out;
}

}  // namespace

std::string Input::named() const {
  json all{{"url", is_remote(url) ? url : fs::path(url).filename().string()}, {"user", user}};
  if (caption) all["caption"] = *caption;
  if (!error.empty()) all["error"] = error;
  return sha256(all.dump(-1, ' ', false, json::error_handler_t::replace)).substr(0, 32);
}

std::string Input::identity() const { return fmt::format("{}-{}-{}", named(), size, modified); }

std::unique_ptr<InputRows> find_inputs(Io& io, const std::vector<std::string>& paths, Look look,
                                       LeftOut* left_out) {
  return found(io, paths, look, true, left_out);
}

std::vector<std::string> changed_keys(const InputRows& inputs, const LeftOut& left_out) {
  std::vector<std::string> out;
  for (const auto& rows : left_out.manifests) {
    int64_t changed = 0;
    Input first;
    for (size_t at = rows.first; at < rows.end; ++at)
      if (const Input input = inputs[at]; !input.wanted.empty() && input.wanted != input.key)
        if (changed++ == 0) first = input;
    if (changed > 0)
      out.push_back(fmt::format("{}: {} {} changed to be unique and valid as file names: '{}' is now '{}'",
                                rows.file, changed, changed == 1 ? "key is" : "keys are", first.wanted,
                                first.key));
  }
  return out;
}

bool is_listing(const std::string& path) { return ends_as(path, {".txt", ".jsonl", ".csv"}); }

std::unique_ptr<InputRows> glance_at_inputs(Io& io, const std::vector<std::string>& paths, Look look,
                                            LeftOut* left_out) {
  return found(io, paths, look, false, left_out);
}

std::string identity_of(const InputRows& inputs) {
  Sha256 all;
  inputs.each([&](size_t, const Input& input) {
    const std::string line = input.wanted + " " + input.identity() + "\n";
    all.add(line.data(), line.size());
  });
  return all.hex();
}

namespace {

// Deeper than any local path can be; bucket keys are bounded too.
constexpr int kDeepest = 2048;

bool is_link(const std::string& url) {
  std::error_code error;
  return !is_remote(url) && std::filesystem::is_symlink(url, error);
}

using TakeEntry = std::function<bool(const Listed&)>;  // false: it is enough

void each_entry(Io& io, const std::string& folder, TakeEntry take) {
  const Uri uri = or_throw(parse_uri(folder));
  const auto store = or_throw(io.store(uri.scheme));
  const auto each = [](void* user, const kinora_entry* e) -> int32_t {
    bool goes_on = true;
    const int32_t failed = guard([&] {
      goes_on = (*static_cast<TakeEntry*>(user))(
          {std::string(view(e->name)), e->folder != 0, e->size, e->modified});
    });
    return failed != KINORA_OK || goes_on ? failed : int32_t{KINORA_SIGNAL_END};
  };
  const int32_t status = store->table->list(store->self, str(uri.path), &take, each);
  if (status != KINORA_SIGNAL_END) or_throw(from_abi(status, folder));
}

class Walk {
 public:
  Walk(Io& io, Look look, LeftOut& left_out, const TakeFile& take)
      : io_(io), look_(look), left_out_(left_out), take_(take) {}

  void add(const std::string& folder, int depth) {
    each_in(folder, [&](const Listed& entry) {
      if (entry.name.empty()) return;
      const std::string url = folder + (folder.ends_with('/') ? "" : "/") + entry.name;
      if (entry.name.front() == '.') {
        ++left_out_.hidden;
      } else if (!entry.folder && is_skipped(entry.name)) {
        ++left_out_.endings[ending_of(entry.name)];
      } else if (!entry.folder) {
        take_({url, entry.size, entry.modified, ""});
      } else if (look_.recursive) {
        add_below(url, depth + 1);
      } else {
        ++left_out_.folders;
      }
    });
  }

  // The same of a remote folder with all folders below, by one flat listing; false: there is none.
  bool add_flat(const std::string& folder) {
    Database rows("the list of " + folder, Database::Access::scratch);
    rows.script(
        "CREATE TABLE file (place TEXT, name TEXT, size INTEGER, modified INTEGER, "
        "PRIMARY KEY (place, name)) WITHOUT ROWID");
    const bool is_flat = list_flat(io_, folder, [&](const std::vector<Listed>& files) {
      for (const Listed& file : files)
        rows.run("INSERT OR IGNORE INTO file VALUES (?, ?, ?, ?)", place_of(file.name), file.name, file.size,
                 file.modified);
    });
    const std::string top = folder + (folder.ends_with('/') ? "" : "/");
    std::string hidden;
    Query files(rows, "SELECT name, size, modified FROM file ORDER BY place, name");
    bool is_any = false;
    while (is_flat && files.next()) {
      is_any = true;
      const std::string name = files.text(0);
      if (name.ends_with('/')) continue;  // an empty object that some programs create for a folder
      if (const std::string one = hidden_part(name); !one.empty())
        left_out_.hidden += std::exchange(hidden, one) != one;
      else if (is_skipped(name))
        ++left_out_.endings[ending_of(name)];
      else
        take_({top + name, static_cast<uint64_t>(files.number(1)), files.number(2), ""});
    }
    return is_any;
  }

 private:
  // Calls f with what is directly in the folder, by name. One folder may hold a million files; many folders are small.
  void each_in(const std::string& folder, const std::function<void(const Listed&)>& f) {
    if (look_.recursive) {
      for (const auto& entry : or_throw(io_.list(folder))) f(entry);
      return;
    }
    Database rows("the list of " + folder, Database::Access::scratch);
    rows.script("CREATE TABLE entry (name TEXT, folder INTEGER, size INTEGER, modified INTEGER)");
    each_entry(io_, folder, [&](const Listed& entry) {
      rows.run("INSERT INTO entry VALUES (?, ?, ?, ?)", entry.name, entry.folder, entry.size, entry.modified);
      return true;
    });
    Query entries(rows, "SELECT name, folder, size, modified FROM entry ORDER BY name");
    while (entries.next())
      f({entries.text(0), entries.number(1) != 0, static_cast<uint64_t>(entries.number(2)),
         entries.number(3)});
  }
  // Sorts folder by folder, as add() finds them: a slash comes before every letter of a name.
  static std::string place_of(std::string name) {
    std::replace(name.begin(), name.end(), '/', '\1');
    return name;
  }
  // The name up to its first part that begins with a dot; empty: no part does.
  static std::string hidden_part(const std::string& name) {
    const size_t dot = name.starts_with('.') ? 0 : name.find("/.");
    return dot == name.npos ? "" : name.substr(0, name.find('/', dot + 1));
  }
  bool is_skipped(const std::string& name) const {
    return !look_.all_files && is_not_video(name) && !(look_.pictures && is_picture_file(name));
  }

  void add_below(const std::string& folder, int depth) {
    if (is_link(folder)) {
      ++left_out_.links;
      return;
    }
    try {
      if (depth > kDeepest) throw Error(KINORA_ERROR_UNSUPPORTED, folder + ": folders nest too deep");
      add(folder + "/", depth);
    } catch (const Error& e) {
      if (e.code() == KINORA_ERROR_CANCELLED || e.code() == KINORA_ERROR_NO_MEMORY) throw;
      if (is_unanswered(folder, e.code())) throw;
      take_({folder, 0, 0, e.what()});
    }
  }

  Io& io_;
  const Look look_;
  LeftOut& left_out_;
  const TakeFile& take_;
};

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

int64_t LeftOut::not_videos() const {
  int64_t sum = 0;
  for (const auto& [ending, count] : endings) sum += count;
  return sum;
}

int64_t LeftOut::pictures() const {
  int64_t sum = 0;
  for (const auto& [ending, count] : endings) sum += is_picture_file("a" + ending) ? count : 0;
  return sum;
}

std::string folders_below(int64_t count) {
  return count == 1 ? "1 folder below is not read; recursive = true reads it"
                    : fmt::format("{} folders below are not read; recursive = true reads them", count);
}

bool is_not_video(std::string_view name) {
  constexpr std::array<std::string_view, 31> kEndings{
      ".txt", ".md",   ".json",   ".jsonl", ".csv",        ".tsv",   ".toml", ".yaml",
      ".yml", ".xml",  ".html",   ".log",   ".srt",        ".vtt",   ".ass",  ".nfo",
      ".jpg", ".jpeg", ".png",    ".webp",  ".bmp",        ".tif",   ".tiff", ".npy",
      ".pdf", ".md5",  ".sha256", ".part",  ".crdownload", ".aria2", ".tmp"};
  return std::find(kEndings.begin(), kEndings.end(), ending_of(name)) != kEndings.end();
}

bool is_picture_file(std::string_view name) {
  return ends_as(std::string(name), {".jpg", ".jpeg", ".png", ".webp"});
}

void files_in(Io& io, const std::string& folder, Look look, LeftOut& out, const TakeFile& take) {
  Walk walk(io, look, out, take);
  if (!look.recursive || !is_remote(folder) || !walk.add_flat(folder)) walk.add(folder, 0);
}

bool is_unanswered(const std::string& url, int32_t code) {
  return code == KINORA_ERROR_IO ||
         (is_remote(url) && (code == KINORA_ERROR_TIMEOUT || code == KINORA_ERROR_INVALID));
}

void files_matching(Io& io, const std::string& pattern, LeftOut& left_out, const TakeFile& take) {
  if (!is_remote(pattern)) {
    std::vector<std::string> unreadable;
    for (const auto& file : local_files_matching(pattern, unreadable)) take(found_file(file));
    for (const auto& folder : unreadable)
      take({folder, 0, 0, folder + ": the folder cannot be read; fix its permissions"});
    return;
  }
  const auto [folder, rest] = split_pattern(pattern);
  const bool deep = rest.find('/') != std::string::npos || rest.find("**") != std::string::npos;
  const int64_t folders = left_out.folders;
  files_in(io, folder, {deep, true}, left_out, [&, at = folder.size()](const FoundFile& file) {
    const bool is_match = file.url == pattern || matches(rest, std::string_view(file.url).substr(at));
    if (is_match || !file.error.empty()) take(file);
  });
  left_out.folders = folders;  // the pattern does not cover their contents
}

void files_directly_in(Io& io, const std::string& folder, const std::function<bool(const FoundFile&)>& take) {
  try {
    each_entry(io, folder, [&](const Listed& e) {
      return e.folder || take({folder + e.name, e.size, e.modified, ""});
    });
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_NOT_FOUND) throw;
  }
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
