// An instance of a stage in a process of the cluster, and the call that it has: what the bridge tells of the call goes
// to the engine's task, in order, on the engine's threads.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "plugins/engines/common/clock.hpp"
#include "plugins/engines/common/task.hpp"
#include "plugins/engines/ray/wire.hpp"

namespace kinora::ray {

struct Limits {
  double timeout = 0;  // seconds without a sign of life; 0: none
  double limit = 0;    // seconds that a sample may take; 0: any
  double wait = 600;   // seconds without a node that is needed, after which the run ends
  double grace = 10;   // seconds to stop in, once asked
  engines::Clock now = std::chrono::steady_clock::now;
};

class Worker : public std::enable_shared_from_this<Worker> {
 public:
  using Post = std::function<void(std::function<void()>)>;
  // post: does the work later, on one of the engine's threads; callable under any lock.
  Worker(int64_t id, size_t node, std::shared_ptr<const Wire> wire, const Limits& limits, Post post)
      : id_(id), node_(node), wire_(std::move(wire)), limits_(limits), post_(std::move(post)) {}

  int64_t id() const { return id_; }
  size_t node() const { return node_; }
  bool ended() const { return ended_; }
  bool lost() const { return lost_; }

  // [without the run's lock] See Instance::send().
  void call(engines::Task& task);
  // The reader's: a letter of a call, "told" or "done"; the end of the process, lost: with its node; the end of the
  // bridge; that its node leaves, so that its call is the last one; and a look at the time.
  void hear(Letter letter);
  void die(const std::string& how, bool lost);
  void cut_off(const std::string& why);
  void leave();
  void look();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void send_call(engines::Task& task, uint64_t call);
  void room(uint64_t call, bool granted);
  void drain();
  void apply(engines::Task& task, Letter& letter);
  bool tell(engines::Task& task, Letter& letter);
  void set(engines::Task& task, const Sample& changes);
  void finish(engines::Task& task, const nlohmann::json& done);
  void fail(const Error& why);
  void send(nlohmann::json head) const;
  // Under the lock: the call is over without a word of the bridge.
  void end_call(int32_t status, const std::string& message);
  void start_draining();
  std::string too_long(engines::Time now) const;

  const int64_t id_;
  const size_t node_;
  const std::shared_ptr<const Wire> wire_;  // null: it was never started
  const Limits& limits_;
  const Post post_;
  std::atomic<bool> ended_{false}, lost_{false};

  std::mutex mutex_;  // of all below; taken under the run's, never the other way round
  std::string how_, cut_off_;
  engines::Task* task_ = nullptr;
  uint64_t call_ = 0;
  std::deque<Letter> letters_;
  bool leaves_ = false;
  bool draining_ = false, waits_ = false;  // waits: an emission has no room yet
  bool sending_ = false;                   // the call: the task is still needed
  std::optional<Error> failed_;            // what the engine said to something that was told
  engines::Time began_{}, lived_{}, waits_since_{};
  std::optional<engines::Time> asked_;  // to stop
};

}  // namespace kinora::ray
