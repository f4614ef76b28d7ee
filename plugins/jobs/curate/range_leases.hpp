// Ranges of a job's inputs that several processes do without a coordinator.
//
// A lease is a small object, FIRST.json, of the range that begins with input FIRST:
//
//   {"v":1,"first":200,"end":300,"begun":240,"owner":"node1-4711-5be0...","term_ms":60000,"epoch":2,"beat":17,
//    "state":"held"}
//
// The job's inputs are cut at multiples of `per_lease`. A lease ends at the next cut or before it: then another one
// begins at its end. Where a lease is missing, the range up to the next cut is free. The owner writes a new beat three
// times a term. A lease whose beat an observer sees unchanged for two terms, by the observer's own monotonic clock, is
// stale: its range is taken over with the next epoch. No clocks of two machines are compared.
//
// Invariant: every change is a conditional write, so of two processes that want a range one has it; and only the
// owner of the last epoch can say that it is done. An earlier owner still writes under another epoch's name.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace kinora::core {

// Small objects by name, which several processes write on conditions (abi/storage.h, put_if). [any-thread]
class LeaseStore {
 public:
  struct Object {
    std::string bytes, tag;
  };
  virtual ~LeaseStore() = default;
  // Nothing: there is none.
  virtual std::optional<Object> read(const std::string& name) = 0;
  // Writes if the object's tag is `tag`, or, if that is empty, if there is no object. Returns the new tag; nothing:
  // another tag. Throws Error.
  virtual std::optional<std::string> put(const std::string& name, const std::string& bytes,
                                         const std::string& tag) = 0;
  virtual bool remove(const std::string& name, const std::string& tag) = 0;
};

// Some servers and disks take a conditional write for an ordinary one, so that two processes would own a range. Throws
// Error(KINORA_ERROR_UNSUPPORTED) if this one does. owner: text that no other process has.
void require_conditions(LeaseStore& store, const std::string& owner);

struct RangeLease {
  uint64_t first = 0, end = 0;  // the range [first, end) of inputs
  uint64_t begun = 0;           // the first input that the owner had not begun at its last beat
  std::string owner{};
  std::chrono::milliseconds term{};  // the owner's; 0: an earlier Kinora has written it
  int64_t epoch = 1, beat = 0;
  enum class State { held, free, done } state = State::held;

  std::string text() const;
  // Throws Error(KINORA_ERROR_DATA) for what is no lease of the range that begins here and ends at most at `bound`.
  static RangeLease read(const std::string& text, const std::string& name, uint64_t first, uint64_t bound);
  std::string part() const;  // of its results: "FIRST.EPOCH"
  // Changes with every beat of every owner, and not when a process cuts the end.
  std::string sign() const;
};

// A lease of this process, and the tag that it last wrote.
struct HeldRange {
  RangeLease lease;
  std::string tag;
};

constexpr int kTermsUntilStale = 2;

class RangeLeases {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::string owner{};
    uint64_t inputs = 0, per_lease = 10'000;
    std::chrono::milliseconds term{60'000};
    std::function<Clock::time_point()> now = Clock::now;
  };
  // Borrows the store.
  RangeLeases(LeaseStore& store, Options options) : store_(store), options_(std::move(options)) {}

  // The name of the lease of the range that begins with this input.
  static std::string name_of(uint64_t first);

  // [owner-thread] A range that is free, given back or stale; else, at the next call, the second half of what another
  // process has not begun. Nothing: none now. Begins its search at a place of its own. Throws Error.
  std::optional<HeldRange> take();
  // [owner-thread] Whether the last take() has found all inputs done.
  bool are_all_done() const { return are_all_done_; }
  // [owner-thread] Calls `f` for every range that is done, in the order of the inputs. Throws Error.
  void each_done(const std::function<void(const RangeLease&)>& f);

  // [any-thread] These change a held lease. The end may come back smaller: another process has taken inputs from there
  // on. False: another process has the range, or the leases are gone; stop the work.
  bool renew(HeldRange& held, uint64_t begun) const;
  bool finish(HeldRange& held) const;
  // [any-thread] For a process that ends without finishing: the range can be taken at once.
  void give_back(HeldRange& held) const;

 private:
  struct Seen {
    std::string sign;
    Clock::time_point since;
  };
  uint64_t bound_of(uint64_t first) const;
  uint64_t least_cut() const;
  std::optional<HeldRange> take_between(uint64_t from, uint64_t bound);
  std::optional<HeldRange> take_over(const LeaseStore::Object& found, const RangeLease& before) const;
  bool is_stale(const RangeLease& lease);
  void cut_longest();
  bool write(HeldRange& held, const std::function<void(RangeLease&)>& change) const;

  LeaseStore& store_;
  const Options options_;
  bool are_all_done_ = false;
  std::map<uint64_t, uint64_t> done_;  // first -> end, which no one changes any more
  std::map<uint64_t, Seen> seen_;
  std::optional<HeldRange> longest_;  // of other processes: with the most inputs that have not begun
};

}  // namespace kinora::core
