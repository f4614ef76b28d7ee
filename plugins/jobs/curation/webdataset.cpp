#include "plugins/jobs/curation/webdataset.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_set>

#include "core/io/io.hpp"
#include "kinora/webdataset_reader.hpp"
#include "plugins/jobs/curation/block_reader.hpp"
#include "plugins/jobs/curation/inputs.hpp"
#include "plugins/jobs/curation/plain_tar.hpp"

namespace kinora::core {
namespace {

constexpr uint64_t kAtOnce = uint64_t{256} << 20;  // larger samples are read member by member

RandomBytes bytes_of(std::shared_ptr<const ByteSource> source) {
  return {source->name(), source->size(), [source](uint64_t offset, void* to, uint64_t size) {
            return or_throw(source->read(offset, to, size));
          }};
}

// bytes: must outlive the result.
RandomBytes bytes_in(const std::string& name, std::span<const uint8_t> bytes) {
  return {name, bytes.size(), [bytes](uint64_t offset, void* to, uint64_t size) {
            const uint64_t n = offset < bytes.size() ? std::min<uint64_t>(size, bytes.size() - offset) : 0;
            if (n > 0) std::memcpy(to, bytes.data() + offset, n);
            return n;
          }};
}

// The sample that the bytes are, which begin at `offset` of a shard, by WebDatasetReader::next() or next_names(). Throws
// Error.
WebDatasetSample parse_one(RandomBytes bytes, uint64_t offset, const WebDatasetLimits& limits,
                           bool contents) {
  WebDatasetLimits inside = limits;
  inside.need_end = false;
  const std::string name = bytes.name;
  WebDatasetReader reader(std::move(bytes), inside);
  auto sample = contents ? reader.next() : reader.next_names();
  if (!sample)
    throw Error(
        KINORA_ERROR_DATA,
        fmt::format("{}: no sample at byte {}; the index does not belong to this shard; write it again", name,
                    offset));
  sample->where.offset += offset;
  return *std::move(sample);
}

WebDatasetSample read_one(const std::shared_ptr<const ByteSource>& source, uint64_t offset, uint64_t size,
                          const WebDatasetLimits& limits) {
  if (size > std::min(kAtOnce, limits.sample_bytes))
    return parse_one(bytes_of(source).part(offset, size), offset, limits, true);
  const auto memory = std::make_unique_for_overwrite<uint8_t[]>(size);
  const std::span<const uint8_t> bytes(memory.get(), or_throw(source->read_kept(offset, memory.get(), size)));
  if (auto plain = plain_sample(bytes)) {
    plain->where = {std::move(plain->where.key), source->name(), offset, size};
    return *std::move(plain);
  }
  return parse_one(bytes_in(source->name(), bytes), offset, limits, true);
}

// The sample with the content of one field, if it is plain.
std::optional<WebDatasetSample> read_headers(const std::shared_ptr<const ByteSource>& source, uint64_t offset,
                                             uint64_t size, std::string_view wanted) {
  const auto read = [&](uint64_t at, void* to, uint64_t n) {
    return or_throw(source->read(offset + at, to, n));
  };
  return plain_sample(read, size, wanted);
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
                                              const OpenBytes& open_file) {
  constexpr uint64_t kMost = uint64_t{1} << 30;  // 134 million samples in one shard
  WebDatasetShard shard;
  shard.limits_ = limits;
  auto source = open_file(uri);
  if (!source) return source.failure();
  shard.read_from(*std::move(source));
  const std::string name = std::string(uri) + ".idx";
  const auto index = open_file(name);
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

void WebDatasetShard::read_from(std::shared_ptr<const ByteSource> source) {
  source_ = std::move(source);
  if (!is_remote(source_->name())) blocks_ = std::make_shared<BlockReader>();
}

template <class Read>
auto WebDatasetShard::reading(size_t i, const Read& read) const {
  return catching([&] {
    if (i >= size())
      throw Error(KINORA_ERROR_INVALID,
                  fmt::format("{}: sample {} was asked for, there are {}", source_->name(), i, size()));
    return read(offsets_[i], offsets_[i + 1] - offsets_[i]);
  });
}

Result<WebDatasetSample> WebDatasetShard::at(size_t i) const {
  return reading(i, [&](uint64_t offset, uint64_t size) {
    const bool in_blocks = blocks_ && size <= limits_.sample_bytes;
    auto next = in_blocks ? blocks_->next(*source_, offset, size, offsets_.back()) : std::nullopt;
    if (!next) return read_one(source_, offset, size, limits_);
    next->where = {std::move(next->where.key), source_->name(), offset, size};
    return *std::move(next);
  });
}

Result<uint64_t> WebDatasetShard::bytes(size_t i) const {
  return reading(i, [](uint64_t, uint64_t size) { return size; });
}

Result<std::string> WebDatasetShard::key(size_t i) const {
  return reading(i, [&](uint64_t offset, uint64_t size) {
    const auto plain = read_headers(source_, offset, size, "");
    return plain ? plain->key()
                 : parse_one(bytes_of(source_).part(offset, size), offset, limits_, false).key();
  });
}

Result<std::optional<std::vector<uint8_t>>> WebDatasetShard::field(size_t i, std::string_view name) const {
  return reading(i, [&](uint64_t offset, uint64_t size) -> std::optional<std::vector<uint8_t>> {
    if (auto plain = read_headers(source_, offset, size, name)) {
      const auto* field = plain->find(name);
      return field ? std::optional(field->bytes) : std::nullopt;
    }
    TarReader tar(bytes_of(source_).part(offset, size), false);
    while (const auto member = tar.next()) {
      const auto parts = split_member_name(member->name);
      if (parts && parts->field == name) return tar.content();
    }
    return std::nullopt;
  });
}

Result<WebDatasetShard> WebDatasetShard::open_or_scan(std::string_view uri, const WebDatasetLimits& limits,
                                                      const OpenBytes& open_file) {
  auto indexed = open(uri, limits, open_file);
  if (indexed || indexed.failure().code != KINORA_ERROR_NOT_FOUND) return indexed;
  return catching([&] {
    WebDatasetShard shard;
    shard.limits_ = limits;
    shard.has_index_ = false;
    shard.read_from(or_throw(open_file(uri)));
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
