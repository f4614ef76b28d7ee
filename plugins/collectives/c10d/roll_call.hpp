// Where each rank of a world stands when a transfer of one of them fails, and that all of them fail then.
//
// A thread of every rank looks now and then whether the roll was called. It then notes in the store where its
// rank stands and wakes it. So no rank waits for its own time limit after another's was over, and a rank that
// leaves no note is stopped or gone, whoever waited for it.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace kinora {

class RollCall {
 public:
  struct Place {
    std::string what;                // "sum #17 of group 'dp'"; empty: in no transfer
    std::vector<int64_t> waits_for;  // ranks of the world
  };
  struct Answers {
    bool timed_out = false;       // of the transfer that failed first
    std::set<int64_t> absent;     // no note, or in no transfer
    std::vector<std::string> at;  // "rank 3 is in recv #2 from rank 1", of those that are elsewhere
  };

  // The store is the roll's own connection, since others may wait inside of theirs.
  RollCall(c10::intrusive_ptr<c10d::Store> store, int64_t rank, std::chrono::milliseconds time_limit);
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;
  ~RollCall();

  // The rank waits at a place while this lives. wake: called from the roll's thread, when the roll is called.
  class Wait {
   public:
    Wait(RollCall& roll, Place place, std::function<void()> wake);
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait();

   private:
    RollCall& roll_;
    std::list<std::pair<Place, std::function<void()>>>::iterator entry_;
  };
  // Where the rank stands when it waits nowhere: for transfers that nobody waits for.
  void stand(Place place);
  // Whether some rank has called it.
  bool called() const;
  // Calls it, and asks the ranks that this one waits for, and those that they wait for, and so on. Throws
  // what the store throws.
  Answers call(const Place& mine, bool timed_out);

 private:
  void watch();
  // Says in the store where this rank is (null: where it waits), once, and wakes it.
  void note(const Place* mine);
  std::optional<Place> place_of(int64_t rank, std::chrono::steady_clock::time_point until);
  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_;
  std::chrono::milliseconds every_, patience_;
  mutable std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false, called_ = false;
  Place standing_;
  std::list<std::pair<Place, std::function<void()>>> waits_;
  std::thread thread_;
};

}  // namespace kinora
