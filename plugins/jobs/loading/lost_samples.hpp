// The samples that a job leaves out, counted by reason, and how many damaged ones it accepts.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/run/data_reading.hpp"

namespace kinora::core {

// Why a sample is not used.
struct Unused {
  enum class Kind {
    failed,     // it is damaged, and counts against the limits
    too_short,  // its clip has too few frames
    dropped,    // a transform's rule left it out
    unwanted    // the caller did not ask for it: it is not counted
  };
  Kind kind = Kind::failed;
  std::string why;     // what is wrong; of a dropped one the rule
  std::string remedy;  // of a short one

  // "damaged", "too short", "dropped by filter.facts", or why it is unwanted.
  std::string reason() const;
};

// A sample that the option `validation` keeps for the other purpose.
inline Unused held_out() {
  return {.kind = Unused::Kind::unwanted, .why = "held out by `validation`", .remedy = {}};
}

// [any-thread]
class LostSamples {
 public:
  // name: of the job, for messages. reading: max_failed and max_failed_share.
  LostSamples(std::string name, const DataReading& reading)
      : name_(std::move(name)), most_(reading.max_failed), most_share_(reading.max_failed_share) {}

  // A slot has a sample that can be used. Slots come in rising order, and one that comes again does not count again.
  void add_used(uint64_t slot);
  // The number of slots that all ranks have used so far, in this run and before it, in place of what
  // add_used() counted.
  void set_used(int64_t slots);
  // A sample is not used. It counts once for its reason; each damaged one is logged, of the others the first for each
  // reason. Throws Error(KINORA_ERROR_DATA) if that is one damaged sample more than accepted.
  // which: identifies it, as "sample 17 of shards/shard-000003.tar".
  void add(const std::string& which, const Unused& unused);
  // A sample is found to be damaged when its set of `size` samples is opened: it counts as failed, against the limits
  // too, but its share is that of the set. Each run finds it again, so state() leaves it out.
  void add_unread(const std::string& which, const std::string& why, uint64_t size);

  int64_t failed() const;
  int64_t too_short() const;
  // {"failed": 2, "too_short": 1, "dropped": {"filter.facts": 12}}
  nlohmann::json counts() const;
  // Logs "latents: samples left out: 2 damaged, 12 dropped by filter.facts", if there are any.
  void log() const;

  // Ranks tell each other what they lost, so that the limits hold for all of them together.
  // Whether this rank has failed samples that take_shared() has not returned yet.
  bool has_new() const;
  // Returns them as text for merge(); all_reasons: everything, also what has been returned before.
  std::string take_shared(bool all_reasons);
  // Adds what all ranks shared, in the same order on each. Throws as add().
  void merge(const std::vector<std::string>& shared);

  // The failed samples, for a checkpoint: {"failed": 2, "names": "0f3a..."}, below 64 KiB. Names are hashes; beyond
  // the first 4,000 only the number is stored, so further ones may count again after a resume.
  nlohmann::json state() const;
  // Throws Error(KINORA_ERROR_DATA) for what state() cannot have returned, and as add().
  void restore(const nlohmann::json& state);

 private:
  using Names = std::set<std::string>;   // hashes
  static constexpr int64_t kFew = 1000;  // samples taken from which on the share counts

  int64_t count_failed() const;
  // Throws if more than accepted have failed. last: names the last one.
  void check(int64_t failed, int64_t of, const std::string& last) const;
  void check_taken(const std::string& last) const;

  const std::string name_;
  const int64_t most_;  // -1: any number
  const double most_share_;
  mutable std::mutex mutex_;
  // Guarded by it.
  int64_t used_ = 0;
  uint64_t next_ = 0;                   // the first slot that has not come yet
  std::map<std::string, Names> names_;  // by Unused::reason()
  Names new_;                           // failed and not shared
  int64_t unnamed_ = 0;                 // failed before the checkpoint, without a name in it
  int64_t unread_ = 0;
};

}  // namespace kinora::core
