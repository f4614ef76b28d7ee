#include "plugins/jobs/curation/webdataset.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <unordered_set>

#include "core/io/io.hpp"
#include "kinora/webdataset_behind.hpp"
#include "kinora/webdataset_reader.hpp"
#include "plugins/jobs/curation/block_reader.hpp"
#include "plugins/jobs/curation/inputs.hpp"
#include "plugins/jobs/curation/plain_tar.hpp"
#include "plugins/jobs/data/stored_text.hpp"

namespace kinora::core {
namespace {

constexpr uint64_t kTarBlock = 512;
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

// The command that writes the index of a shard again.
std::string index_command(const std::string& shard) {
  const size_t slash = shard.rfind('/');
  return fmt::format("`kinora data index {}`", slash == std::string::npos ? "." : shard.substr(0, slash));
}

[[noreturn]] void refuse_stale(const std::string& shard, const std::string& what) {
  throw Error(KINORA_ERROR_DATA,
              fmt::format("{}: {}; the index does not belong to this shard; write it again with {}", shard,
                          what, index_command(shard)));
}

// " 'KEY'" of the first member, or "" if that cannot be read.
std::string quoted_key(const RandomBytes& bytes) {
  try {
    const auto member = TarReader(bytes, false).next();
    const auto name = member ? split_member_name(member->name) : std::nullopt;
    return name ? fmt::format(" '{}'", name->key) : "";
  } catch (const Error&) {
    return "";
  }
}

// Names key and place of the bytes that begin at `offset` of a shard in their error. Bytes that do not begin as an
// archive does have a damaged header.
Error placed(const Error& error, const RandomBytes& bytes, uint64_t offset) {
  std::string_view what = error.what();
  if (const std::string before = bytes.name + ": "; what.starts_with(before))
    what.remove_prefix(before.size());
  const std::string key = quoted_key(bytes);
  if (key.empty() && what.starts_with("not a tar archive"))
    return {
        KINORA_ERROR_DATA,
        fmt::format(
            "{}: the sample at byte {}: no header is there; copy the shard again, or write its index again "
            "with {}",
            bytes.name, offset, index_command(bytes.name))};
  return {KINORA_ERROR_DATA, fmt::format("{}: the sample{} at byte {}: {}", bytes.name, key, offset, what)};
}

// The only sample of the bytes, which begin at `offset` of a shard, by WebDatasetReader::next() or next_names(). Throws
// Error.
WebDatasetSample parse_one(const RandomBytes& bytes, uint64_t offset, const WebDatasetLimits& limits,
                           bool contents) {
  WebDatasetLimits inside = limits;
  inside.need_end = false;
  std::optional<WebDatasetSample> sample, second;
  try {
    WebDatasetReader reader(bytes, inside);
    sample = contents ? reader.next() : reader.next_names();
    if (sample) second = reader.next_names();
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_DATA) throw;
    throw placed(e, bytes, offset);
  }
  if (!sample) refuse_stale(bytes.name, fmt::format("no sample at byte {}", offset));
  if (second)
    refuse_stale(bytes.name,
                 fmt::format("the samples '{}' and '{}' at byte {}, where the index has one sample",
                             sample->key(), second->key(), offset));
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
  for (auto& entry : or_throw(io->list(uri + "/")))
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
  if (o.empty() || text->size() % 8 != 0 || !rising)
    return fail(KINORA_ERROR_DATA,
                "{}: not an index of {} ({} bytes); copy the folder again, or run the job that made it again",
                name, uri, text->size());
  const auto checked = catching([&] { shard.check_end(); });
  if (!checked) return checked.failure();
  return shard;
}

// An index leaves out what comes after a hole or other damage; here it counts as damaged. Samples that follow the last
// one of the index without damage are those of another shard.
void WebDatasetShard::check_end() {
  const uint64_t end = offsets_.back();
  const auto data = first_data(end);
  if (!data) return;
  const std::string damaged = fmt::format(
      "{}: damaged at byte {}, behind the last sample of the index; copy it again", source_->name(), end);
  if (*data >= end + kTarBlock) return end_at_damage(damaged);  // a hole
  std::optional<WebDatasetSample> behind;
  try {
    WebDatasetReader reader(bytes_of(source_).part(end, source_->size()), limits_);
    behind = reader.next_names();
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_DATA) throw;
    return end_at_damage(damaged);
  }
  if (behind)
    refuse_stale(
        source_->name(),
        fmt::format("the sample '{}' at byte {} comes after the last one of the index", behind->key(), end));
}

// The first byte at or after `from` that is not zero.
std::optional<uint64_t> WebDatasetShard::first_data(uint64_t from) const {
  std::vector<uint8_t> block(std::min<uint64_t>(64 << 10, source_->size() - std::min(from, source_->size())));
  while (from < source_->size()) {
    const uint64_t got = or_throw(source_->read_kept(from, block.data(), block.size()));
    if (got == 0) break;
    const auto end = block.begin() + static_cast<ptrdiff_t>(got);
    const auto found = std::find_if(block.begin(), end, [](uint8_t c) { return c != 0; });
    if (found != end) return from + static_cast<uint64_t>(found - block.begin());
    from += got;
  }
  return std::nullopt;
}

void WebDatasetShard::read_from(std::shared_ptr<const ByteSource> source) {
  source_ = std::move(source);
  if (!is_remote(source_->name())) blocks_ = std::make_shared<BlockReader>();
}

template <class Read>
auto WebDatasetShard::reading(size_t i, const Read& read) const {
  return catching([&] {
    if (i >= whole_) throw Error(KINORA_ERROR_DATA, damage_);
    if (i >= size())
      throw Error(KINORA_ERROR_INVALID,
                  fmt::format("{}: sample {} was asked for, there are {}", source_->name(), i, size()));
    if (offsets_[i + 1] > source_->size())
      throw Error(
          KINORA_ERROR_DATA,
          fmt::format(
              "{}: sample {} is at bytes {} to {} by the index, and the shard has {}; copy it again, or "
              "write the index again with {}",
              source_->name(), i, offsets_[i], offsets_[i + 1], source_->size(),
              index_command(source_->name())));
    return read(offsets_[i], offsets_[i + 1] - offsets_[i]);
  });
}

Result<WebDatasetSample> WebDatasetShard::at(size_t i) const {
  return reading(i, [&](uint64_t offset, uint64_t size) {
    const bool in_blocks = blocks_ && size <= limits_.sample_bytes;
    auto next = in_blocks ? blocks_->next(*source_, offset, size, offsets_.back()) : std::nullopt;
    if (!next) return with_utf8_json(read_one(source_, offset, size, limits_));
    next->where = {std::move(next->where.key), source_->name(), offset, size};
    return with_utf8_json(*std::move(next));
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
      if (parts && field_name(parts->field) == name) return tar.content();
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
    shard.scan();
    return shard;
  });
}

void WebDatasetShard::scan() {
  WebDatasetReader reader(bytes_of(source_), limits_);
  if (!reader.seekable()) refuse_compressed(source_->name());
  offsets_ = {0};
  while (true) {
    try {
      if (!reader.next_names()) return;
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_DATA || (reader.broken() && size() == 0)) throw;
      if (reader.broken()) return end_at_damage(e.what());
    }
    offsets_.back() = reader.last().offset;
    offsets_.push_back(reader.last().offset + reader.last().size);
  }
}

void WebDatasetShard::end_at_damage(const std::string& why) {
  damage_ = fmt::format("{} (the shard is left out from byte {} on)", why, offsets_.back());
  whole_ = size();
  for (const auto& behind : samples_behind(bytes_of(source_), offsets_.back()))
    if (behind.offset > offsets_.back()) offsets_.push_back(behind.offset);
  offsets_.push_back(std::max(source_->size(), offsets_.back() + 1));
}

Result<WebDatasetSample> read_webdataset(const WebDatasetEntry& entry, const WebDatasetLimits& limits) {
  const auto source = open_bytes(entry.shard);
  if (!source) return source.failure();
  auto sample = catching([&] { return with_utf8_json(read_one(*source, entry.offset, entry.size, limits)); });
  if (sample && sample->key() != entry.key)
    return fail(KINORA_ERROR_DATA, "{}: '{}' is at the position of '{}'; the shard has changed, start again",
                entry.shard, sample->key(), entry.key);
  return sample;
}

WebDatasetSample with_utf8_json(WebDatasetSample sample) {
  for (auto& field : sample.fields) {
    if (field.name != "json" && !field.name.ends_with(".json")) continue;
    const std::string stored(field.bytes.begin(), field.bytes.end());
    const std::string text = as_utf8(stored, fmt::format("the {} of {}", field.name, sample.key()));
    if (text != stored) field.bytes.assign(text.begin(), text.end());
  }
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
