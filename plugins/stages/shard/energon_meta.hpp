// The files that turn a folder of shards into a dataset for Megatron-Energon: .nv-meta/index.sqlite with the
// positions of samples, and the small files next to it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tar.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace kinora::shard {

struct StoredSample {
  std::string key;
  uint64_t offset = 0, size = 0;  // in the archive, including headers
  struct Part {
    std::string name;
    uint64_t offset, size;  // of the content, without headers
  };
  std::vector<Part> parts;
};

// Groups members, in the order of the archive, into samples: neighbours with the same key. `end` as in
// TarContents.
std::vector<StoredSample> group(const std::vector<Member>& members, uint64_t end);

// Energon's index.sqlite, also used to find keys that are already stored.
// A database in an unnamed temporary file, because SQLite needs a local file and the shards may be anywhere.
// The same shards give the same bytes.
class ShardIndex {
 public:
  ShardIndex();
  ShardIndex(const ShardIndex&) = delete;
  ShardIndex& operator=(const ShardIndex&) = delete;
  ~ShardIndex();
  // Throws Error (KINORA_ERROR_DATA) if a key is already stored.
  void add(int64_t shard, const std::vector<StoredSample>& samples);
  // Returns the number of the shard that holds the sample.
  std::optional<int64_t> find(std::string_view key) const;
  // Builds the look-up indexes and copies the database to `uri`. Nothing can be added afterwards.
  void publish(const std::string& uri);

 private:
  void execute(const char* sql);
  void check(int status) const;
  std::string folder_;  // of the temporary file
  int descriptor_ = -1;
  struct sqlite3* db_ = nullptr;
  struct sqlite3_stmt *add_sample_ = nullptr, *add_part_ = nullptr, *find_ = nullptr;
};

struct ShardInfo {
  std::string name;  // shard-000000.tar
  uint64_t samples;
};

// Content of SHARD.tar.idx: little-endian uint64 offsets of each sample's first header and of the end of the
// last sample.
std::string tar_index(const std::vector<StoredSample>& samples, uint64_t end);

// Shortens runs of names that differ only in their last number: shard-{000000..000041}.tar.
std::vector<std::string> brace_list(const std::vector<std::string>& names);

// Content of .nv-meta/.info.json. Its names are in the order of the shard numbers in index.sqlite.
std::string info_json(const std::vector<ShardInfo>& shards);
// Content of .nv-meta/split.yaml: a share `val` of the shards, evenly spread, is for validation, the rest for
// training.
std::string split_yaml(const std::vector<ShardInfo>& shards, double val);
// Content of .nv-meta/dataset.yaml: samples as stored, which the training code decodes.
std::string dataset_yaml();
// Content of .nv-meta/index.uuid: changes exactly when the index changes.
std::string index_uuid(uint64_t high, uint64_t low);

// Hash for index_uuid: FNV-1a over the content of the index.
class IndexHash {
 public:
  void add(std::string_view text);
  void add(uint64_t number);
  void add(const ShardInfo& shard, const std::vector<StoredSample>& samples);
  uint64_t high() const { return static_cast<uint64_t>(state_ >> 64); }
  uint64_t low() const { return static_cast<uint64_t>(state_); }

 private:
  __extension__ using Wide = unsigned __int128;
  Wide state_ = (Wide{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;
};

}  // namespace kinora::shard
