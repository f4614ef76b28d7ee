// Reads the samples of the next slots in threads of its own, while the caller works on the current one.
//
// Slots are read in their order, as far as their samples fit `memory` together (their sizes are in the index of each
// shard); a larger one is read alone. The longer the caller has followed its turns, the more slots are read ahead, so
// a caller that jumps about costs no read that it does not ask for.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "plugins/jobs/loading/data_counts.hpp"
#include "plugins/jobs/loading/data_order.hpp"

namespace kinora::core {

// The slots that a caller takes one after the other: of every `of` from `first` on, the first `count`; or those of a
// list.
struct SlotTurns {
  uint64_t first = 0, count = 0, of = 0;
  uint64_t end = UINT64_MAX;      // no slot from here on
  std::vector<uint64_t> slots{};  // the list, if it is not empty

  bool are_known() const { return count > 0 || !slots.empty(); }
  // UINT64_MAX: none.
  uint64_t next(uint64_t slot) const;
};

class SamplesAhead {
 public:
  // order: outlives this object. reading: memory and readers; -1 readers are 4 if a set is on a storage, else none: for
  // local files the kernel reads ahead.
  SamplesAhead(DataOrder& order, const DataReading& reading);
  SamplesAhead(const SamplesAhead&) = delete;
  SamplesAhead& operator=(const SamplesAhead&) = delete;
  // Waits for the reads that have begun; a storage bounds each by its own timeouts.
  ~SamplesAhead();

  // [the order's owner-thread] The slots that read() is asked for from now on. Without turns it reads nothing ahead and
  // leaves what is ahead as it is, for calls out of turn.
  void follow(SlotTurns turns) { turns_ = std::move(turns); }
  // [the order's owner-thread] The sample of a draw, which `slot` takes, or which replaces one that cannot be used.
  // Throws what reading it threw.
  WebDatasetSample read(uint64_t slot, const DataOrder::Draw& draw);
  // [any-thread]
  DataCounts counts() const;

 private:
  static constexpr uint64_t kMostAhead = 1000, kGrowth = 4;  // slots

  struct Entry {
    uint64_t slot;
    DataOrder::Draw draw;
    uint64_t number;  // in the order in which memory is granted
    // Guarded by mutex_, but for `sample` and `error` before is_done.
    uint64_t bytes = 0;  // granted
    bool is_dropped = false, is_done = false;
    WebDatasetSample sample;
    std::exception_ptr error;
  };
  using Lock = std::unique_lock<std::mutex>;

  // [owner-thread] Waits for a draw's entry; null if it was not read ahead.
  std::shared_ptr<Entry> awaited(uint64_t slot, const DataOrder::Draw& draw);
  void add_waited(double seconds, uint64_t samples);
  // The loop of a reader thread.
  void work();
  // All below are called under the lock.
  void fetch(Entry& entry, Lock& lock);
  bool fits(uint64_t bytes) const { return used_ == 0 || bytes <= memory_ - std::min(used_, memory_); }
  void grant(Entry& entry, uint64_t bytes);
  std::shared_ptr<Entry> take(uint64_t slot, const DataOrder::Draw& draw);
  void drop(Entry& entry);
  void plan(uint64_t after);

  DataOrder& order_;
  const uint64_t memory_;
  const size_t readers_;
  // Only the owner-thread uses these four.
  SlotTurns turns_;
  std::optional<uint64_t> slot_;  // the last one in turn
  uint64_t run_ = 0;              // slots since the last jump
  uint64_t planned_ = 0;          // number of the next entry that is made
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> ahead_;  // by slot
  std::deque<std::shared_ptr<Entry>> todo_;   // those of them that no reader has begun
  uint64_t granted_ = 0;                      // number of the next entry that gets memory
  uint64_t used_ = 0;                         // bytes granted
  DataCounts counts_;                         // without those of the sets
  bool ends_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace kinora::core
