#include "plugins/jobs/data/part_file.hpp"

#include <cstring>

#include "plugins/jobs/data/record.hpp"

// "kinora.part/1\n", name, size and time of the shard; then a sample as 1, key, offset, size, number of fields
// and each field's name, offset, size; then 0 and the end of the last sample. Numbers are uint64 of this
// machine, texts a length and their bytes.
namespace kinora::data {
namespace {

constexpr std::string_view kHead = "kinora.part/1\n";
constexpr size_t kBlock = 1 << 20, kMostName = 1 << 20, kMostParts = 200'000;

}  // namespace

std::string part_name(const Shard& shard) { return kPartPrefix + hash_of(shard.name); }

PartWriter::PartWriter(const DataFolder& folder, const Shard& shard)
    : out_(folder.meta_uri(part_name(shard))), waiting_(kHead) {
  put(shard.name);
  put(shard.size);
  put(static_cast<uint64_t>(shard.modified));
}

void PartWriter::put(uint64_t number) {
  waiting_.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void PartWriter::put(std::string_view text) {
  put(uint64_t{text.size()});
  waiting_ += text;
}

void PartWriter::flush_at(size_t bytes) {
  if (waiting_.size() < bytes) return;
  out_.write(waiting_);
  waiting_.clear();
}

void PartWriter::add(const energon::StoredSample& sample) {
  put(uint64_t{1});
  put(sample.key);
  put(sample.offset);
  put(sample.size);
  put(uint64_t{sample.parts.size()});
  for (const auto& part : sample.parts) {
    put(part.name);
    put(part.offset);
    put(part.size);
  }
  flush_at(kBlock);
}

void PartWriter::commit(uint64_t end) {
  put(uint64_t{0});
  put(end);
  flush_at(0);
  out_.commit();
}

std::optional<PartReader> PartReader::open(const DataFolder& folder, const Shard& shard) {
  const std::string name = part_name(shard);
  if (!folder.meta.contains(name)) return std::nullopt;
  PartReader out(RandomBytes::of_file(folder.meta_uri(name)));
  std::string head(kHead.size(), '\0');
  out.take(head.data(), head.size());
  const bool is_same = head == kHead && out.text() == shard.name && out.number() == shard.size &&
                       out.number() == static_cast<uint64_t>(shard.modified);
  return is_same ? std::optional(std::move(out)) : std::nullopt;
}

void PartReader::take(void* to, size_t size) {
  for (auto* out = static_cast<char*>(to); size > 0;) {
    if (at_ == block_.size()) {
      block_.resize(kBlock);
      block_.resize(bytes_.read(next_, block_.data(), kBlock));
      next_ += block_.size();
      at_ = 0;
      if (block_.empty()) throw Error(KINORA_ERROR_DATA, bytes_.name + ": cut off; remove it and run again");
    }
    const size_t n = std::min(size, block_.size() - at_);
    std::memcpy(out, block_.data() + at_, n);
    out += n;
    at_ += n;
    size -= n;
  }
}

uint64_t PartReader::number() {
  uint64_t out = 0;
  take(&out, sizeof out);
  return out;
}

std::string PartReader::text() {
  const uint64_t size = number();
  if (size > kMostName) throw Error(KINORA_ERROR_DATA, bytes_.name + ": damaged; remove it and run again");
  std::string out(size, '\0');
  take(out.data(), out.size());
  return out;
}

std::optional<energon::StoredSample> PartReader::next() {
  if (number() == 0) return std::nullopt;
  energon::StoredSample out;
  out.key = text();
  out.offset = number();
  out.size = number();
  uint64_t n = number();
  if (n > kMostParts) throw Error(KINORA_ERROR_DATA, bytes_.name + ": damaged; remove it and run again");
  for (; n > 0; --n) {
    std::string name = text();
    const uint64_t offset = number(), size = number();
    out.parts.push_back({std::move(name), offset, size});
  }
  return out;
}

}  // namespace kinora::data
