#include "plugins/jobs/curation/webdataset.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "core/io/io.hpp"
#include "kinora/webdataset_reader.hpp"
#include "plugins/jobs/curation/plain_tar.hpp"

namespace kinora::core {
namespace {

constexpr uint64_t kAtOnce = uint64_t{256} << 20;  // larger samples are read member by member

RandomBytes bytes_of(std::shared_ptr<const ByteSource> source) {
  return {source->name(), source->size(), [source](uint64_t offset, void* to, uint64_t size) {
            return or_throw(source->read(offset, to, size));
          }};
}

RandomBytes bytes_in(const std::string& name, std::vector<uint8_t> bytes) {
  const auto all = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return {name, all->size(), [all](uint64_t offset, void* to, uint64_t size) {
            const uint64_t n = offset < all->size() ? std::min<uint64_t>(size, all->size() - offset) : 0;
            if (n > 0) std::memcpy(to, all->data() + offset, n);
            return n;
          }};
}

// The sample in bytes [offset, offset + size) of a shard, by WebDatasetReader::next() or next_names(). Throws
// Error.
WebDatasetSample read_one(const std::shared_ptr<const ByteSource>& source, uint64_t offset, uint64_t size,
                          const WebDatasetLimits& limits, bool contents = true) {
  RandomBytes part = bytes_of(source).part(offset, size);
  if (contents && size <= std::min(kAtOnce, limits.sample_bytes)) {
    std::vector<uint8_t> bytes(size);
    bytes.resize(or_throw(source->read(offset, bytes.data(), size)));
    if (auto plain = plain_sample(bytes)) {
      plain->where = {plain->key(), source->name(), offset, size};
      return *std::move(plain);
    }
    part = bytes_in(source->name(), std::move(bytes));
  }
  WebDatasetLimits inside = limits;
  inside.need_end = false;
  WebDatasetReader reader(std::move(part), inside);
  auto sample = contents ? reader.next() : reader.next_names();
  if (!sample)
    throw Error(
        KINORA_ERROR_DATA,
        fmt::format("{}: no sample at byte {}; the index does not belong to this shard; write it again",
                    source->name(), offset));
  sample->where.offset += offset;
  return *std::move(sample);
}

[[noreturn]] void refuse_compressed(std::string_view shard) {
  throw Error(
      KINORA_ERROR_UNSUPPORTED,
      fmt::format("{}: the shard is compressed, so its samples cannot be read at random; unpack it", shard));
}

std::vector<std::string> names_in_folder(const std::string& uri) {
  Io* io = served_io();
  if (!io)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                fmt::format("{}: this program reads no files of other storages", uri));
  std::vector<std::string> names;
  for (auto& entry : or_throw(io->list(uri)))
    if (!entry.folder) names.push_back(std::move(entry.name));
  return names;
}

}  // namespace

Result<WebDatasetShard> WebDatasetShard::open(std::string_view uri, const WebDatasetLimits& limits,
                                              const OpenBytes& bytes) {
  constexpr uint64_t kMost = uint64_t{1} << 30;  // 134 million samples in one shard
  WebDatasetShard shard;
  shard.limits_ = limits;
  auto source = bytes(uri);
  if (!source) return source.failure();
  shard.source_ = *std::move(source);
  const std::string name = std::string(uri) + ".idx";
  const auto index = bytes(name);
  if (!index) return index.failure();
  const auto text = read_text(**index, kMost);
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

Status WebDatasetShard::check_number(size_t i) const {
  if (i < size()) return {};
  return fail(KINORA_ERROR_INVALID, "{}: sample {} was asked for, there are {}", source_->name(), i, size());
}

Result<uint64_t> WebDatasetShard::bytes(size_t i) const {
  if (const auto there = check_number(i); !there) return there.failure();
  return offsets_[i + 1] - offsets_[i];
}

Result<WebDatasetSample> WebDatasetShard::at(size_t i) const {
  if (const auto there = check_number(i); !there) return there.failure();
  return catching([&] { return read_one(source_, offsets_[i], offsets_[i + 1] - offsets_[i], limits_); });
}

Result<std::string> WebDatasetShard::key(size_t i) const {
  if (const auto there = check_number(i); !there) return there.failure();
  return catching(
      [&] { return read_one(source_, offsets_[i], offsets_[i + 1] - offsets_[i], limits_, false).key(); });
}

Result<WebDatasetShard> WebDatasetShard::open_or_scan(std::string_view uri, const WebDatasetLimits& limits,
                                                      const OpenBytes& bytes) {
  auto indexed = open(uri, limits, bytes);
  if (indexed || indexed.failure().code != KINORA_ERROR_NOT_FOUND) return indexed;
  return catching([&] {
    WebDatasetShard shard;
    shard.limits_ = limits;
    shard.has_index_ = false;
    shard.source_ = or_throw(bytes(uri));
    WebDatasetReader reader(bytes_of(shard.source_), limits);
    if (!reader.seekable()) refuse_compressed(uri);
    shard.offsets_ = {0};
    while (const auto sample = reader.next_names()) {
      shard.offsets_.back() = sample->where.offset;
      shard.offsets_.push_back(sample->where.offset + sample->where.size);
    }
    return shard;
  });
}

Result<WebDatasetSample> read_webdataset(const WebDatasetEntry& entry, const WebDatasetLimits& limits) {
  const auto source = open_bytes(entry.shard);
  if (!source) return source.failure();
  auto sample = catching([&] { return read_one(*source, entry.offset, entry.size, limits); });
  if (sample && sample->key() != entry.key)
    return fail(KINORA_ERROR_DATA, "{}: '{}' is at the position of '{}'; the shard has changed, start again",
                entry.shard, sample->key(), entry.key);
  return sample;
}

Result<std::vector<WebDatasetFile>> webdataset_list(std::string_view path) {
  return catching([&] { return webdataset_files(path, names_in_folder); });
}

Result<std::vector<std::string>> webdataset_shards(std::string_view path) {
  return catching([&] {
    std::vector<std::string> out;
    for (auto& file : or_throw(webdataset_list(path))) out.push_back(std::move(file.uri));
    return out;
  });
}

Result<std::vector<WebDatasetEntry>> index_webdataset(std::string_view folder,
                                                      const WebDatasetLimits& limits) {
  return catching([&] {
    std::vector<WebDatasetEntry> out;
    std::unordered_set<std::string> seen;
    for (const auto& shard : or_throw(webdataset_shards(folder))) {
      WebDatasetReader reader(bytes_of(or_throw(open_bytes(shard))), limits);
      if (!reader.seekable()) refuse_compressed(shard);
      while (auto sample = reader.next_names()) {
        if (!seen.insert(sample->key()).second)
          throw Error(KINORA_ERROR_DATA,
                      fmt::format("{}: a second sample '{}'; keys must differ in all shards of a folder",
                                  shard, sample->key()));
        out.push_back(std::move(sample->where));
      }
    }
    return out;
  });
}

}  // namespace kinora::core
