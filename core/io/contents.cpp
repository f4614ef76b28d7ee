#include "core/io/contents.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "core/base/digest.hpp"
#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/io/atomic_file.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMostRead = uint64_t{1} << 30;  // bytes of data that are read for a digest

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::optional<ListedFile> listed_in(const json& record, const std::string& name) {
  const json& one = object_in(object_in(record, "files"), name.c_str());
  if (one.empty()) return std::nullopt;
  const auto bytes = one.find("bytes");
  const bool is_size = bytes != one.end() && bytes->is_number_unsigned();
  return ListedFile{name, is_size ? bytes->get<uint64_t>() : 0, text_in(one, "sha256")};
}

std::optional<Listing> listing_at(const fs::path& file) {
  std::error_code error;
  const fs::path at = fs::absolute(file, error).lexically_normal(), name = at.filename(),
                 folder = at.parent_path();
  if (const auto listed = listed_in(object_in_file(folder / "state.json"), name.string()))
    return Listing{folder, *listed, ""};
  // Only weights are in a summary: next to thousands of clips it is not read for each of them.
  if (name.extension() != ".safetensors") return std::nullopt;
  // An adapter is in a folder of its own below the job's.
  for (const auto& [of, as] :
       {std::pair(folder, name), std::pair(folder.parent_path(), folder.filename() / name)}) {
    const json summary = object_in_file(of / "summary.json");
    if (text_in(summary, "status") != "done") continue;
    if (const auto listed = listed_in(summary, as.generic_string()))
      return Listing{of, *listed, text_in(summary, "job")};
  }
  return std::nullopt;
}

// Returns the digest that another program has computed for the file; "" if there is none.
std::string digest_by_others(const fs::path& file) {
  std::error_code error;
  if (const fs::path to = fs::read_symlink(file, error); !error && to.parent_path().filename() == "blobs")
    if (const std::string name = to.filename().string(); is_sha256(name)) return name;
  const auto listed = listing_of(file);
  const bool is_it =
      listed && is_sha256(listed->file.sha256) && listed->file.bytes == fs::file_size(file, error);
  return is_it ? listed->file.sha256 : "";
}

// The files below a folder, by their names relative to it. seen: folders on the way, since links may form cycles.
void add_files(const fs::path& folder, const fs::path& below, std::set<fs::path> seen,
               std::map<std::string, fs::path>& out) {
  std::error_code error;
  if (!seen.insert(fs::canonical(folder, error)).second) return;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path name = entry.path().filename();
    if (name.string().starts_with('.')) continue;
    if (entry.is_directory(error))
      add_files(entry.path(), below / name, seen, out);
    else if (entry.is_regular_file(error))
      out[(below / name).string()] = entry.path();
  }
}

std::map<std::string, fs::path> files_of(const fs::path& path) {
  std::map<std::string, fs::path> out;
  std::error_code error;
  if (fs::is_directory(path, error))
    add_files(path, "", {}, out);
  else
    out[path.filename().string()] = path;
  return out;
}

}  // namespace

std::string Contents::of_bytes(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    throw Error(KINORA_ERROR_NOT_FOUND, file.string() + ": the file cannot be read; check the path");
  const auto at = [](const timespec& t) { return fmt::format("{}.{:09}", t.tv_sec, t.tv_nsec); };
  const std::string key =
      fmt::format("{}-{}-{}-{}", info.st_ino, info.st_size, at(info.st_mtim), at(info.st_ctim));
  {
    const std::lock_guard lock(mutex_);
    load();
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
  }
  if (info.st_size > 1'000'000'000) log_info("{}: computing its digest, once", file.string());
  const std::string digest = sha256_of_file(file);
  const std::lock_guard lock(mutex_);
  return known_[key] = learnt_[key] = digest;
}

std::string Contents::of_file(const fs::path& file) {
  const std::string digest = digest_by_others(file);
  return digest.empty() ? of_bytes(file) : digest;
}

std::string Contents::of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return of_file(path);
  std::string all;
  for (const auto& [name, file] : files_of(path)) all += of_file(file) + "  " + name + "\n";
  return sha256(all);
}

std::string Contents::of_data(const fs::path& path) {
  const auto files = files_of(path);
  std::error_code error;
  uint64_t bytes = 0;
  for (const auto& [name, file] : files)
    if (const auto size = fs::file_size(file, error); !error) bytes += size;
  std::string all;
  for (const auto& [name, file] : files) {
    const auto size = fs::file_size(file, error);
    const auto time = fs::last_write_time(file, error).time_since_epoch().count();
    if (error)
      all += name + " cannot be read\n";
    else
      all += bytes <= kMostRead ? of_file(file) + "  " + name + "\n"
                                : fmt::format("{} {} {}\n", name, size, time);
  }
  return sha256(all);
}

void Contents::load() {
  if (is_loaded_) return;
  is_loaded_ = true;
  const json all = object_in_file(kept_);  // a damaged file counts as missing
  for (const auto& [key, digest] : all.items())
    if (const auto* text = digest.get_ptr<const std::string*>()) known_.emplace(key, *text);
}

void Contents::save() {
  const std::lock_guard lock(mutex_);
  if (learnt_.empty()) return;
  json all = object_in_file(kept_);
  all.update(json(learnt_));
  learnt_.clear();
  if (const auto status = write_file_atomically(kept_, all.dump(1) + "\n"); !status)
    log_warn("{}", status.failure().message);
}

json list_json(const std::vector<ListedFile>& files) {
  json out = json::object();
  for (const auto& f : files) out[f.name] = {{"bytes", f.bytes}, {"sha256", f.sha256}};
  return out;
}

std::vector<ListedFile> list_from(const json& list) {
  std::vector<ListedFile> out;
  for (const auto& [name, file] : list.items()) out.push_back({name, file.at("bytes"), file.at("sha256")});
  return out;
}

std::optional<Listing> listing_of(const fs::path& file) {
  if (auto out = listing_at(file)) return out;
  std::error_code error;
  const fs::path real = fs::weakly_canonical(file, error);  // a link into the folder
  return error || real == file ? std::nullopt : listing_at(real);
}

}  // namespace kinora::core
