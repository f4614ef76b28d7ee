// The samples of a folder of WebDataset shards (kinora/webdataset.hpp), by number and in any order.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/byte_source.hpp"
#include "kinora/webdataset.hpp"
#include "kinora/webdataset_files.hpp"

namespace kinora::core {

// Opens a file by its path or URI.
using OpenBytes = std::function<Result<std::shared_ptr<const ByteSource>>(std::string_view uri)>;

class BlockReader;

// Random access to one shard through its .tar.idx: little-endian uint64 offsets of each sample's first
// header, then of the end of the last sample. [any-thread] after open.
//
// A sample that is damaged, that the shard is too short for, or that the index joins with another one is a failure,
// KINORA_ERROR_DATA.
class WebDatasetShard {
 public:
  // KINORA_ERROR_DATA if the shard has samples behind the last one of the index. If those are behind a hole or other
  // damage, they are failures, as those of open_or_scan() are.
  static Result<WebDatasetShard> open(std::string_view uri, const WebDatasetLimits& limits = {},
                                      const OpenBytes& open_file = open_bytes);
  // The same for a shard that may have no .tar.idx: then its headers are read, and the samples that can
  // be found behind a damaged one are failures; at least one is.
  static Result<WebDatasetShard> open_or_scan(std::string_view uri, const WebDatasetLimits& limits = {},
                                              const OpenBytes& open_file = open_bytes);
  bool has_index() const { return has_index_; }
  // Whether there is no such damage.
  bool is_whole() const { return damage_.empty(); }
  size_t size() const { return offsets_.size() - 1; }
  // The byte of the shard at which a sample begins.
  uint64_t offset(size_t i) const { return offsets_.at(i); }
  Result<WebDatasetSample> at(size_t i) const;
  // The number of bytes of a sample in the shard, headers included.
  Result<uint64_t> bytes(size_t i) const;
  // The key of a sample, from its headers alone.
  Result<std::string> key(size_t i) const;
  // The bytes of one field, without reading the others; nothing if the sample has no such field.
  Result<std::optional<std::vector<uint8_t>>> field(size_t i, std::string_view name) const;

 private:
  WebDatasetShard() = default;
  void read_from(std::shared_ptr<const ByteSource> source);
  void check_end();
  std::optional<uint64_t> first_data(uint64_t from) const;
  void scan();
  void end_at_damage(const std::string& why);
  // read(offset, size) of the i-th sample.
  template <class Read>
  auto reading(size_t i, const Read& read) const;
  std::shared_ptr<const ByteSource> source_;
  std::vector<uint64_t> offsets_;
  bool has_index_ = true;
  std::string damage_;  // why the samples from whole_ on cannot be read; empty: there are none such
  size_t whole_ = SIZE_MAX;
  WebDatasetLimits limits_;
  std::shared_ptr<BlockReader> blocks_;  // null: of a storage
};

// The shards that `path` stands for (webdataset_files of the SDK); folders of every storage can be listed.
Result<std::vector<WebDatasetFile>> webdataset_list(std::string_view path);
// Their paths or URIs.
Result<std::vector<std::string>> webdataset_shards(std::string_view path);

// Every sample of a folder or .tar file, read from its headers alone; a duplicate key is a failure.
Result<std::vector<WebDatasetEntry>> index_webdataset(std::string_view folder,
                                                      const WebDatasetLimits& limits = {});

// Loads one of them. [any-thread]
Result<WebDatasetSample> read_webdataset(const WebDatasetEntry& entry, const WebDatasetLimits& limits = {});

// The sample with its fields of JSON in UTF-8, whatever program saved them; other bytes stay as they are.
WebDatasetSample with_utf8_json(WebDatasetSample sample);

}  // namespace kinora::core
