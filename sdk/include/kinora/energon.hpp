// The samples of a WebDataset shard with their positions, as Megatron-Energon's index has them. Needs libarchive.
//
//   shard-000000.tar.idx      where each sample begins: tar_index()
//   .nv-meta/index.sqlite     the positions of samples and of their fields: energon_index.hpp
//   .nv-meta/index.uuid       changes when they change: IndexHash
//   .nv-meta/.info.json, split.yaml, dataset.yaml: energon_files.hpp
#pragma once
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinora/tar.hpp"
#include "kinora/webdataset.hpp"

KINORA_SDK_BEGIN

namespace kinora::energon {

struct StoredSample {
  std::string key;
  uint64_t offset = 0, size = 0;  // in the archive, including headers
  struct Part {
    std::string name;
    uint64_t offset, size;  // of the content, without headers
  };
  std::vector<Part> parts;
};

// Joins the members of an archive, in their order, to samples: neighbours with the same key.
class Grouping {
 public:
  // Returns the sample that ended before this member, if one did. A member that is not part of a sample is
  // skipped.
  std::optional<StoredSample> add(std::string_view member, uint64_t header, uint64_t content, uint64_t size) {
    const auto name = split_member_name(member);
    if (!name) return std::nullopt;
    std::optional<StoredSample> ended;
    if (!open_ || open_->key != name->key) {
      ended = finish(header);
      open_ = StoredSample{std::string(name->key), header, 0, {}};
    }
    open_->parts.push_back({std::string(name->field), content, size});
    return ended;
  }
  // Returns the last sample, which ends at `end`; nothing if there is none.
  std::optional<StoredSample> finish(uint64_t end) {
    if (open_) open_->size = end - open_->offset;
    return std::exchange(open_, std::nullopt);
  }
  // Fields so far of the sample that has not ended.
  size_t open_parts() const { return open_ ? open_->parts.size() : 0; }

 private:
  std::optional<StoredSample> open_;
};

// Lists the samples of one shard by its headers, without reading contents. [owner-thread]
class ShardScan {
 public:
  explicit ShardScan(RandomBytes bytes) : name_(bytes.name), tar_(std::move(bytes)) {
    if (!tar_.seekable())
      throw Error(KINORA_ERROR_DATA,
                  name_ + ": the shard is compressed, so its samples cannot be read at random; unpack it");
  }

  // The next sample, or nothing at the end. Throws Error(KINORA_ERROR_DATA) for a damaged archive, of which
  // nothing more can be read then; a sample whose end was not seen is not returned.
  std::optional<StoredSample> next() {
    constexpr size_t kMostParts = 100'000;  // bounds the memory; a hostile archive could have millions
    while (auto member = tar_.next()) {
      auto ended = samples_.add(member->name, member->header, member->content(), member->size);
      if (samples_.open_parts() > kMostParts)
        throw Error(KINORA_ERROR_DATA, name_ + ": entry " + std::to_string(member->number) +
                                           ": a sample has more than " + std::to_string(kMostParts) +
                                           " fields; is it a WebDataset?");
      if (ended) return ended;
    }
    return samples_.finish(tar_.end());
  }

  // After the last sample: its end. After an error: the end of the last entry that could be read.
  uint64_t end() const { return tar_.end(); }

 private:
  std::string name_;
  TarReader tar_;
  Grouping samples_;
};

// Content of SHARD.tar.idx: little-endian uint64 offsets of each sample's first header and of the end of the
// last sample.
class TarIndex {
 public:
  void add(const StoredSample& sample) { put(sample.offset); }
  // Call once.
  std::string finish(uint64_t end) {
    put(end);
    return std::move(bytes_);
  }

 private:
  void put(uint64_t v) {
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(v >> (8 * i));
  }
  std::string bytes_;
};

inline std::string tar_index(const std::vector<StoredSample>& samples, uint64_t end) {
  TarIndex out;
  for (const auto& sample : samples) out.add(sample);
  return out.finish(end);
}

// Content of .nv-meta/index.uuid: changes exactly when the index changes.
inline std::string index_uuid(uint64_t high, uint64_t low) {
  high = (high & ~uint64_t{0xf000}) | 0x8000;                // version 8: custom content
  low = (low & ~(uint64_t{3} << 62)) | (uint64_t{2} << 62);  // the variant of RFC 9562
  char text[37];
  std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(high >> 32),
                static_cast<unsigned>(high >> 16 & 0xffff), static_cast<unsigned>(high & 0xffff),
                static_cast<unsigned>(low >> 48), static_cast<unsigned long long>(low & 0xffffffffffff));
  return text;
}

// Hash for index_uuid: FNV-1a over the content of the index. Add each shard's name, then its samples.
class IndexHash {
 public:
  void add(std::string_view text) {
    constexpr Wide kPrime = (Wide{1} << 88) | 0x13b;
    for (const unsigned char c : text) state_ = (state_ ^ c) * kPrime;
    state_ = (state_ ^ 0x100) * kPrime;  // separator: "ab","c" differs from "a","bc"
  }
  void add(uint64_t number) { add(std::string_view(reinterpret_cast<const char*>(&number), sizeof number)); }
  void add(const StoredSample& sample) {
    add(sample.key);
    add(sample.offset);
    for (const auto& part : sample.parts) {
      add(part.name);
      add(part.size);
    }
  }
  std::string uuid() const {
    return index_uuid(static_cast<uint64_t>(state_ >> 64), static_cast<uint64_t>(state_));
  }

 private:
  __extension__ using Wide = unsigned __int128;
  Wide state_ = (Wide{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;
};

}  // namespace kinora::energon

KINORA_SDK_END
