// Lists the shards of a folder and all their samples.
#include <algorithm>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "core/io/webdataset.hpp"
#include "core/io/io.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

bool has_scheme(std::string_view uri) { return uri.find("://") != std::string_view::npos; }

// Names in .info.json must lead to files below the folder, never out of it.
bool stays_inside(std::string_view name) {
  const fs::path path(name);
  return !name.empty() && !path.is_absolute() && std::find(path.begin(), path.end(), "..") == path.end();
}

Result<std::vector<std::string>> shards_of_info(std::string_view folder, const std::string& text) {
  const auto info = nlohmann::ordered_json::parse(text, nullptr, false);
  const std::string name = std::string(folder) + "/.nv-meta/.info.json";
  if (!info.is_object() || !info.contains("shard_counts") || !info["shard_counts"].is_object())
    return fail(KINORA_DATA,
                "{}: no object \"shard_counts\"; copy the folder again, or run the job that made it again",
                name);
  std::vector<std::string> out;
  for (const auto& [shard, count] : info["shard_counts"].items()) {
    if (!stays_inside(shard))
      return fail(
          KINORA_DATA,
          "{}: '{}' is not a name below the folder; copy the folder again, or run the job that made it again",
          name, shard);
    out.push_back(std::string(folder) + "/" + shard);
  }
  return out;
}

Result<std::vector<std::string>> shards_of_list(std::string_view folder) {
  Io* io = served_io();
  if (!io) return fail(KINORA_UNSUPPORTED, "{}: this program reads no files of other storages", folder);
  const auto listed = io->list(folder);
  if (!listed) return listed.failure();
  std::vector<std::string> out;
  for (const auto& entry : *listed)
    if (!entry.folder && entry.name.ends_with(".tar") && entry.name.front() != '.')
      out.push_back(std::string(folder) + (folder.ends_with('/') ? "" : "/") + entry.name);
  if (out.empty()) return fail(KINORA_NOT_FOUND, "{}: no .tar files; give a folder of shards", folder);
  return out;
}

}  // namespace

Result<std::vector<std::string>> webdataset_shards(std::string_view folder) {
  constexpr uint64_t kInfo = uint64_t{1} << 28;  // enough for some millions of shards
  std::error_code error;
  if (!has_scheme(folder) ? fs::is_regular_file(folder, error) : folder.ends_with(".tar"))
    return std::vector{std::string(folder)};
  const auto info = read_text(std::string(folder) + "/.nv-meta/.info.json", kInfo);
  if (info) return shards_of_info(folder, *info);
  if (info.failure().code != KINORA_NOT_FOUND) return info.failure();
  if (has_scheme(folder)) return shards_of_list(folder);
  std::vector<std::string> out;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".tar") && name.front() != '.') out.push_back(at->path().string());
  }
  if (error)
    return fail(KINORA_NOT_FOUND, "{}: cannot be listed ({}); give a folder of shards", folder,
                error.message());
  if (out.empty()) return fail(KINORA_NOT_FOUND, "{}: no .tar files; give a folder of shards", folder);
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::vector<WebDatasetEntry>> index_webdataset(std::string_view folder,
                                                      const WebDatasetLimits& limits) {
  const auto shards = webdataset_shards(folder);
  if (!shards) return shards.failure();
  std::vector<WebDatasetEntry> out;
  std::unordered_set<std::string> seen;
  for (const auto& shard : *shards) {
    auto reader = WebDatasetReader::open(shard, limits);
    if (!reader) return reader.failure();
    if (!reader->seekable())
      return fail(KINORA_UNSUPPORTED, "{}: the shard is compressed, so its samples cannot be read at random; unpack it",
                  shard);
    for (;;) {
      auto sample = reader->next_names();
      if (!sample) return sample.failure();
      if (!*sample) break;
      if (!seen.insert((*sample)->key()).second)
        return fail(KINORA_DATA, "{}: a second sample '{}'; keys must differ in all shards of a folder",
                    shard, (*sample)->key());
      out.push_back(std::move((*sample)->where));
    }
  }
  return out;
}

}  // namespace kinora::core
