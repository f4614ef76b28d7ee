// Compares .info.json and index.sqlite with the samples that the shards have.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/jobs/data/problem.hpp"
#include "plugins/jobs/data/stored_index.hpp"

namespace kinora::data {

// [owner-thread] Shards come one after the other.
class CheckIndex {
 public:
  CheckIndex(const DataFolder& folder, OnProblem problem);
  // Whether there is an index at all.
  bool is_there() const { return info_.has_value(); }
  void begin_shard(const std::string& name);
  // left_out: offsets of samples that index.sqlite does not have, because their keys are taken.
  void add(const std::vector<energon::StoredSample>& samples, const std::set<uint64_t>& left_out);
  void end_shard();

 private:
  // Runs f; an error of the database becomes a problem and ends its comparison.
  template <class F>
  void reading(F f);
  void compare(const energon::StoredSample& sample, bool is_left_out);
  OnProblem problem_;
  std::optional<std::map<std::string, Listed>> info_;
  std::unique_ptr<StoredIndex> index_;
  std::string shard_;
  const Listed* listed_ = nullptr;  // the shard in .info.json
  uint64_t count_ = 0;              // samples of the shard so far
  std::optional<energon::StoredSample> expected_;
  bool is_compared_ = false;  // the shard is in index.sqlite and has agreed so far
};

}  // namespace kinora::data
