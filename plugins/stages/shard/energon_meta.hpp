// The small files that turn a folder of shards into a dataset for Megatron-Energon.
#pragma once
#include <string>
#include <vector>

#include "shard_index.hpp"

namespace kinora::shard {

struct ShardInfo {
  std::string name;  // shard-000000.tar
  uint64_t samples;
};

// Content of SHARD.tar.idx: little-endian uint64 offsets of each sample's first header and of the end of the last
// sample.
std::string tar_index(const std::vector<StoredSample>& samples, uint64_t end);

// Shortens runs of names that differ only in their last number: shard-{000000..000041}.tar.
std::vector<std::string> brace_list(const std::vector<std::string>& names);

// Content of .nv-meta/.info.json. Its names are in the order of the shard numbers in index.sqlite.
std::string info_json(const std::vector<ShardInfo>& shards);
// Content of .nv-meta/split.yaml: a share `val` of the shards, evenly spread, is for validation, the rest for training.
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
