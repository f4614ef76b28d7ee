// The samples of a training that cannot be used, and how many of them it accepts.
#pragma once
#include <atomic>
#include <cstdint>
#include <set>
#include <string>

#include "core/run/data_reading.hpp"

namespace kinora::core {

// [owner-thread]
class FailedSamples {
 public:
  // name: of the job, for messages. reading: max_failed and max_failed_share.
  FailedSamples(std::string name, const DataReading& reading)
      : name_(std::move(name)), most_(reading.max_failed), most_share_(reading.max_failed_share) {}

  // A slot has a sample that can be used. Slots come in rising order, and one that comes again does not count again.
  void add_used(uint64_t slot) {
    if (slot < next_) return;
    next_ = slot + 1;
    ++used_;
  }
  // A sample cannot be used: it is logged and counted, once. Throws Error(KINORA_ERROR_DATA) if that is one more than
  // accepted. which: identifies it, as "sample 17 of shards/shard-000003.tar".
  void add(const std::string& which, const std::string& why);
  // A sample's clip has too few frames: it is counted once, apart from failures, and the first is logged.
  // needed: frames of the clip that would do.
  void add_short(const std::string& which, const std::string& why, int64_t needed);
  // As in `which`.
  const std::set<std::string>& names() const { return seen_; }
  const std::set<std::string>& short_names() const { return short_; }
  // [any-thread]
  int64_t count() const { return count_; }
  int64_t short_count() const { return short_count_; }

 private:
  static constexpr int64_t kFew = 1000;  // samples taken from which on the share counts

  std::string name_;
  int64_t most_;  // -1: any number
  double most_share_;
  int64_t used_ = 0;
  uint64_t next_ = 0;  // the first slot that has not come yet
  std::set<std::string> seen_, short_;
  std::atomic<int64_t> count_{0}, short_count_{0};  // their sizes
};

}  // namespace kinora::core
