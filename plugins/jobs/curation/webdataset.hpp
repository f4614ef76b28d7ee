// WebDataset: shards are tar archives, and neighbouring files with the same key are the fields of one sample.
//
//   shard-000000.tar: film-1.mp4 film-1.json film-2.mp4 film-2.json ...  key "film-1" has the fields mp4 and json
//   shard-000000.tar.idx                                                 Energon: where each sample begins, see below
//   .nv-meta/.info.json                                                  Energon: the shards and how many samples each has
//
// A name is split at the first dot of its last part: "a.b/clip.shots.json" is the key "a.b/clip" and the
// field "shots.json". Names without a dot, and those with a part __x__ at the front, are not samples and are
// skipped.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinora/sample.hpp"
#include "plugins/jobs/curation/tar_reader.hpp"

namespace kinora::core {

struct WebDatasetLimits {
  uint64_t sample_bytes = uint64_t{1} << 32;  // of all fields of a sample: bounds the memory
  bool need_end = true;                       // an archive without its end-of-archive block counts as cut off
};

// A sample's position: bytes [offset, offset + size) of the shard, headers included.
struct WebDatasetEntry {
  std::string key;
  std::string shard;  // path or URI
  uint64_t offset = 0, size = 0;
};

struct WebDatasetSample {
  WebDatasetEntry where;
  struct Field {
    std::string name;
    std::vector<uint8_t> bytes;
  };
  std::vector<Field> fields;

  const std::string& key() const { return where.key; }
  const Field* find(std::string_view name) const;
};

// For stages and engines; keeps the memory instead of copying it.
Sample to_sample(WebDatasetSample&& from);

// Key and field of a member, or nothing if it is not part of a sample.
struct WebDatasetName {
  std::string_view key, field;
};
std::optional<WebDatasetName> split_member_name(std::string_view name);

// The samples of one shard, in its order. [owner-thread]
class WebDatasetReader {
 public:
  static Result<WebDatasetReader> open(std::string_view uri, const WebDatasetLimits& limits = {});
  static Result<WebDatasetReader> over(std::shared_ptr<const ByteSource> source,
                                       const WebDatasetLimits& limits = {});
  // The next sample, or nothing at the end. After a failure there is nothing more; a sample whose end was not
  // seen is not returned.
  Result<std::optional<WebDatasetSample>> next();
  // The same without the bytes: fields have only names. Use one or the other per reader.
  Result<std::optional<WebDatasetSample>> next_names();
  // Whether `where` of the samples can be used to read them again.
  bool seekable() const { return tar_.seekable(); }

 private:
  WebDatasetReader(TarReader tar, std::string name, const WebDatasetLimits& limits)
      : tar_(std::move(tar)), name_(std::move(name)), limits_(limits) {}
  Result<std::optional<WebDatasetSample>> read(bool contents);
  Status add(WebDatasetSample& sample, const TarMember& member, std::string_view field, bool contents,
             uint64_t& left);
  TarReader tar_;
  std::string name_;
  WebDatasetLimits limits_;
  std::optional<TarMember> ahead_;  // the first member of the next sample
  bool failed_ = false;
};

// Random access to one shard through its .tar.idx: little-endian uint64 offsets of each sample's first
// header, then of the end of the last sample. [any-thread] after open.
class WebDatasetShard {
 public:
  static Result<WebDatasetShard> open(std::string_view uri, const WebDatasetLimits& limits = {});
  size_t size() const { return offsets_.size() - 1; }
  Result<WebDatasetSample> at(size_t i) const;

 private:
  WebDatasetShard() = default;
  std::shared_ptr<const ByteSource> source_;
  std::vector<uint64_t> offsets_;
  WebDatasetLimits limits_;
};

// The shards of a folder: those that .nv-meta/.info.json names, in its order, else the *.tar files by name.
// For the path of a .tar file, itself. A folder may be on another storage, "s3://bucket/shards".
Result<std::vector<std::string>> webdataset_shards(std::string_view folder);

// Every sample of a folder or .tar file, read from its headers alone; a duplicate key is a failure.
Result<std::vector<WebDatasetEntry>> index_webdataset(std::string_view folder,
                                                      const WebDatasetLimits& limits = {});

// Loads one of them. [any-thread]
Result<WebDatasetSample> read_webdataset(const WebDatasetEntry& entry, const WebDatasetLimits& limits = {});

}  // namespace kinora::core
