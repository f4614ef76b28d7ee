// The ranks of one group, and which of them are missing when a transfer fails.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "kinora/error.hpp"

namespace kinora {

// Finds the transfer of each rank of a world when one of them fails, and makes all of them fail then.
//
// A thread of every rank checks regularly whether the roll was called. It then notes its rank's transfer in
// the store and wakes the rank. So no rank waits for its own time limit after another's has passed, and a
// rank that leaves no note is stopped or gone, whichever rank waited for it.
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

  // The rank waits at a place while this object lives. wake: called from the roll's thread when the roll is
  // called.
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

struct Peers {
  std::string collective;        // "gloo": the first word of every error
  std::string name;              // the group's name
  std::vector<int64_t> members;  // world ranks
  int64_t rank = 0;              // this process's rank within the group
  std::chrono::milliseconds timeout{};
  at::Device device = at::kCPU;               // device of the transferred tensors
  c10::intrusive_ptr<c10d::Store> store;      // the group's own part of the store
  c10::intrusive_ptr<c10d::Backend> backend;  // null: a group of one
  std::function<void()> leave;     // closes its connections at once, and so ends the waits of the others
  std::shared_ptr<RollCall> roll;  // the world's

  int64_t size() const { return static_cast<int64_t>(members.size()); }
  // This rank's place in a transfer ("sum #17"). peer: the other end of a SEND or RECV, the only
  // rank that it waits for; else -1.
  RollCall::Place place(const std::string& what, int64_t peer) const;
  // The error of a transfer that failed with `text`; the group cannot be used afterwards. Libraries know
  // addresses, not ranks; so all ranks are asked for their place, which ends their waits too. Those that
  // do not answer, or are not in a transfer, are the missing ones. KINORA_ERROR_TIMEOUT if the first failure
  // was a timeout, KINORA_ERROR_IO if a connection broke.
  Error failure(const std::string& what, const std::string& text, int64_t peer = -1) const;
};

}  // namespace kinora
