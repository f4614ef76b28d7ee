// Which fields the samples of each shard have, to find those that some samples miss.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kinora/energon.hpp"
#include "plugins/jobs/data/problem.hpp"

namespace kinora::data {

class FieldSets {
 public:
  // Fields in which samples may differ.
  explicit FieldSets(std::set<std::string> optional) : optional_(std::move(optional)) {}
  void begin_shard() { shards_.emplace_back(); }
  void add(const energon::StoredSample& sample);
  // After the last shard: a problem for each field that samples of this shard miss and others have.
  std::vector<Problem> missing(size_t shard, const std::string& name) const;

 private:
  // Samples with the same fields.
  struct Group {
    uint64_t count = 0;
    std::string key;  // of the first
    uint64_t offset = 0;
  };
  using Names = std::set<std::string>;
  const std::set<std::string> optional_;
  std::vector<std::map<Names, Group>> shards_;
  Names all_;
};

}  // namespace kinora::data
