// The small files that make a folder of shards a dataset for Megatron-Energon.
#pragma once
#include <string>
#include <vector>

#include "shard_index.hpp"

namespace kinora::shard {

struct ShardInfo {
  std::string name;  // shard-000000.tar
  uint64_t samples;
};

// SHARD.tar.idx: little-endian uint64 offsets of each sample's first header, then of the end of the last
// sample.
std::string tar_index(const std::vector<StoredSample>& samples, uint64_t end);

// Runs of names that differ in their last number only, shortened: shard-{000000..000041}.tar.
std::vector<std::string> brace_list(const std::vector<std::string>& names);

// .nv-meta/.info.json. The order of its names is that of the numbers in index.sqlite.
std::string info_json(const std::vector<ShardInfo>& shards);
// .nv-meta/split.yaml: `val` of the shards, spread evenly over all, for validation; the others for training.
std::string split_yaml(const std::vector<ShardInfo>& shards, double val);
// .nv-meta/dataset.yaml: samples as they are stored, to be decoded by the training code.
std::string dataset_yaml();
// .nv-meta/index.uuid: changes when the index does, and only then.
std::string index_uuid(uint64_t high, uint64_t low);

// What index_uuid is made of: FNV-1a over everything that the index says.
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
