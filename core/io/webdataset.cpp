#include "core/io/webdataset.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "core/io/io.hpp"

namespace kinora::core {
namespace {

constexpr size_t kMostFields = 1000;  // per sample; a hostile archive could have millions

// A first part "__x__" (to a slash or the end) marks notes that are not samples.
bool is_note(std::string_view name) {
  if (!name.starts_with("__")) return false;
  const std::string_view part = name.substr(0, name.find('/'));
  return part.size() >= 4 && part.ends_with("__");
}

// The sample in bytes [offset, offset + size) of a shard.
Result<WebDatasetSample> read_one(const std::shared_ptr<const ByteSource>& source, uint64_t offset,
                                  uint64_t size, const WebDatasetLimits& limits) {
  WebDatasetLimits inside = limits;
  inside.need_end = false;
  auto reader = WebDatasetReader::over(part_of(source, offset, size), inside);
  if (!reader) return reader.failure();
  auto sample = reader->next();
  if (!sample) return sample.failure();
  if (!*sample)
    return fail(KINORA_ERROR_DATA,
                "{}: no sample at byte {}; the index does not belong to this shard; write it again",
                source->name(), offset);
  (*sample)->where.offset += offset;
  return std::move(**sample);
}

}  // namespace

const WebDatasetSample::Field* WebDatasetSample::find(std::string_view name) const {
  const auto at = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
  return at == fields.end() ? nullptr : &*at;
}

Sample to_sample(WebDatasetSample&& from) {
  Sample out(from.key());
  for (auto& field : from.fields) out.set(field.name.c_str(), std::move(field.bytes));
  return out;
}

std::optional<WebDatasetName> split_member_name(std::string_view name) {
  if (is_note(name)) return std::nullopt;
  const size_t slash = name.rfind('/'), base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  return WebDatasetName{name.substr(0, dot), name.substr(dot + 1)};
}

Result<WebDatasetReader> WebDatasetReader::open(std::string_view uri, const WebDatasetLimits& limits) {
  auto source = open_bytes(uri);
  if (!source) return source.failure();
  return over(*std::move(source), limits);
}

Result<WebDatasetReader> WebDatasetReader::over(std::shared_ptr<const ByteSource> source,
                                                const WebDatasetLimits& limits) {
  std::string name = source->name();
  auto tar = TarReader::open(std::move(source), limits.need_end);
  if (!tar) return tar.failure();
  return WebDatasetReader(*std::move(tar), std::move(name), limits);
}

Result<std::optional<WebDatasetSample>> WebDatasetReader::next() { return read(true); }
Result<std::optional<WebDatasetSample>> WebDatasetReader::next_names() { return read(false); }

Result<std::optional<WebDatasetSample>> WebDatasetReader::read(bool contents) {
  std::optional<WebDatasetSample> sample;
  uint64_t left = limits_.sample_bytes;
  while (!failed_) {
    std::optional<TarMember> member = std::exchange(ahead_, std::nullopt);
    if (!member) {
      auto found = tar_.next();
      failed_ = !found;
      if (!found) return found.failure();
      if (!*found) break;
      member = *std::move(found);
    }
    const auto name = split_member_name(member->name);
    if (!name) continue;
    if (sample && sample->key() != name->key) {
      ahead_ = std::move(member);
      break;
    }
    if (!sample) sample = WebDatasetSample{{std::string(name->key), name_, member->header, 0}, {}};
    const Status added = add(*sample, *member, name->field, contents, left);
    failed_ = !added;
    if (!added) return added.failure();
    sample->where.size = member->end - sample->where.offset;
  }
  return sample;
}

Status WebDatasetReader::add(WebDatasetSample& sample, const TarMember& member, std::string_view field,
                             bool contents, uint64_t& left) {
  if (sample.find(field))
    return fail(KINORA_ERROR_DATA, "{}: entry {} is a second '{}'; a sample may have each field once", name_,
                member.number, member.name);
  if (sample.fields.size() == kMostFields)
    return fail(KINORA_ERROR_DATA, "{}: entry {}: sample '{}' has more than {} fields; is it a WebDataset?",
                name_, member.number, sample.key(), kMostFields);
  WebDatasetSample::Field to{std::string(field), {}};
  if (contents) {
    auto bytes = tar_.content(left);
    if (!bytes) return bytes.failure();
    left -= bytes->size();
    to.bytes = *std::move(bytes);
  }
  sample.fields.push_back(std::move(to));
  return {};
}

Result<WebDatasetShard> WebDatasetShard::open(std::string_view uri, const WebDatasetLimits& limits) {
  constexpr uint64_t kMost = uint64_t{1} << 30;  // 134 million samples in one shard
  WebDatasetShard shard;
  shard.limits_ = limits;
  auto source = open_bytes(uri);
  if (!source) return source.failure();
  shard.source_ = *std::move(source);
  const std::string name = std::string(uri) + ".idx";
  const auto text = read_text(name, kMost);
  if (!text) return text.failure();
  for (size_t i = 0; i + 8 <= text->size(); i += 8) {
    uint64_t offset = 0;
    for (size_t b = 8; b-- > 0;) offset = offset << 8 | static_cast<uint8_t>((*text)[i + b]);
    shard.offsets_.push_back(offset);
  }
  const auto& o = shard.offsets_;
  const bool rising = std::adjacent_find(o.begin(), o.end(), std::greater_equal<>()) == o.end();
  if (o.empty() || text->size() % 8 != 0 || !rising || o.back() > shard.source_->size())
    return fail(KINORA_ERROR_DATA,
                "{}: not an index of {} ({} bytes); copy the folder again, or run the job that made it again",
                name, uri, text->size());
  return shard;
}

Result<WebDatasetSample> WebDatasetShard::at(size_t i) const {
  if (i >= size())
    return fail(KINORA_ERROR_INVALID, "{}: sample {} was asked for, there are {}", source_->name(), i,
                size());
  return read_one(source_, offsets_[i], offsets_[i + 1] - offsets_[i], limits_);
}

Result<WebDatasetSample> read_webdataset(const WebDatasetEntry& entry, const WebDatasetLimits& limits) {
  const auto source = open_bytes(entry.shard);
  if (!source) return source.failure();
  auto sample = read_one(*source, entry.offset, entry.size, limits);
  if (sample && sample->key() != entry.key)
    return fail(KINORA_ERROR_DATA, "{}: '{}' is at the position of '{}'; the shard has changed, start again",
                entry.shard, sample->key(), entry.key);
  return sample;
}

// The shards of a folder and all their samples.
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
    return fail(KINORA_ERROR_DATA,
                "{}: no object \"shard_counts\"; copy the folder again, or run the job that made it again",
                name);
  std::vector<std::string> out;
  for (const auto& [shard, count] : info["shard_counts"].items()) {
    if (!stays_inside(shard))
      return fail(
          KINORA_ERROR_DATA,
          "{}: '{}' is not a name below the folder; copy the folder again, or run the job that made it again",
          name, shard);
    out.push_back(std::string(folder) + "/" + shard);
  }
  return out;
}

Result<std::vector<std::string>> shards_of_list(std::string_view folder) {
  Io* io = served_io();
  if (!io) return fail(KINORA_ERROR_UNSUPPORTED, "{}: this program reads no files of other storages", folder);
  const auto listed = io->list(folder);
  if (!listed) return listed.failure();
  std::vector<std::string> out;
  for (const auto& entry : *listed)
    if (!entry.folder && entry.name.ends_with(".tar") && entry.name.front() != '.')
      out.push_back(std::string(folder) + (folder.ends_with('/') ? "" : "/") + entry.name);
  if (out.empty()) return fail(KINORA_ERROR_NOT_FOUND, "{}: no .tar files; give a folder of shards", folder);
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
  if (info.failure().code != KINORA_ERROR_NOT_FOUND) return info.failure();
  if (has_scheme(folder)) return shards_of_list(folder);
  std::vector<std::string> out;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".tar") && name.front() != '.') out.push_back(at->path().string());
  }
  if (error)
    return fail(KINORA_ERROR_NOT_FOUND, "{}: cannot be listed ({}); give a folder of shards", folder,
                error.message());
  if (out.empty()) return fail(KINORA_ERROR_NOT_FOUND, "{}: no .tar files; give a folder of shards", folder);
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
      return fail(KINORA_ERROR_UNSUPPORTED,
                  "{}: the shard is compressed, so its samples cannot be read at random; unpack it", shard);
    for (;;) {
      auto sample = reader->next_names();
      if (!sample) return sample.failure();
      if (!*sample) break;
      if (!seen.insert((*sample)->key()).second)
        return fail(KINORA_ERROR_DATA, "{}: a second sample '{}'; keys must differ in all shards of a folder",
                    shard, (*sample)->key());
      out.push_back(std::move((*sample)->where));
    }
  }
  return out;
}

}  // namespace kinora::core
