// Finds the transfer of each rank of a world when one of them fails, and makes all of them fail then.
//
// A thread of every rank checks regularly whether the roll was called. It then notes its rank's transfer in the store
// and wakes the rank. So no rank waits for its own time limit after another's has passed, and a rank that
// leaves no note is stopped or gone, whichever rank waited for it.
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
    std::string what;                // "sum #17 of group 'dp'"; empty: not in a transfer
    std::vector<int64_t> waits_for;  // ranks of the world
  };
  struct Answers {
    bool timed_out = false;       // for the transfer that failed first
    std::set<int64_t> absent;     // left no note, or not in a transfer
    std::vector<std::string> at;  // "rank 3 is in recv #2 from rank 1", for those that wait elsewhere
  };

  // The store must be a separate connection, since other threads may wait inside of theirs.
  RollCall(c10::intrusive_ptr<c10d::Store> store, int64_t rank, std::chrono::milliseconds time_limit);
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;
  ~RollCall();

  // The rank waits at a place while this object lives. wake: called from the roll's thread when the roll is called.
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
  // The rank's place while it does not wait: for transfers whose completion is not awaited.
  void stand(Place place);
  // Whether some rank has called the roll.
  bool called() const;
  // Calls the roll, and asks the ranks that this one waits for, those that they wait for, and so on. Rethrows
  // exceptions of the store.
  Answers call(const Place& mine, bool timed_out);

 private:
  void watch();
  // Notes this rank's place in the store (null: where it waits), once, and wakes the rank.
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
