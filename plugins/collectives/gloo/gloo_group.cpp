#include "plugins/collectives/gloo/gloo_group.hpp"

#include <condition_variable>
#include <list>
#include <mutex>

#include <ATen/core/grad_mode.h>

#include "plugins/collectives/c10d/transfers.hpp"

namespace kinora {

namespace {

using at::Tensor;

// A thread waits until a transfer ends, or until the roll is called.
class Signal {
 public:
  enum class Of { none, end, roll };
  void give(Of which) {
    {
      const std::scoped_lock lock(mutex_);
      if (given_ == Of::none) given_ = which;
    }
    changed_.notify_all();
  }
  Of wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return given_ != Of::none; });
    return given_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Of given_ = Of::none;
};

// Transfers that were abandoned while they ran: threads of Gloo use them until the process ends.
void keep(std::shared_ptr<const Peers> peers, Started started) {
  static std::mutex mutex;
  static auto* const kept = new std::list<std::pair<std::shared_ptr<const Peers>, Started>>;
  const std::scoped_lock lock(mutex);
  kept->emplace_back(std::move(peers), std::move(started));
}

class GlooWork final : public CollectiveWork<Tensor> {
 public:
  GlooWork(std::shared_ptr<const Peers> peers, TransferNames::Name name, Started started,
           std::optional<Announced> announced)
      : peers_(std::move(peers)),
        name_(std::move(name)),
        started_(std::move(started)),
        announced_(std::move(announced)) {}
  Tensor finish() override {
    if (started_.work) wait();
    const at::NoGradGuard off;
    return started_.result();
  }

 private:
  void wait() {
    bool ended = false;
    try {
      ended = name_.peer < 0 ? ends() : message_ends();
    } catch (const std::exception& e) {
      throw peers_->failure(name_.what, why(e.what()), name_.peer);
    }
    if (ended) return;
    keep(peers_, std::move(started_));
    throw peers_->failure(name_.what, why("another rank's transfer failed"), name_.peer);
  }
  // False: the roll was called first.
  bool ends() {
    const auto signal = std::make_shared<Signal>();
    started_.work->getFuture()->addCallback(
        [signal](c10::ivalue::Future&) { signal->give(Signal::Of::end); });
    const RollCall::Wait here(*peers_->roll, peers_->place(name_.what, -1),
                              [signal] { signal->give(Signal::Of::roll); });
    return signal->wait() == Signal::Of::end && started_.work->wait();
  }
  bool message_ends() {
    const RollCall::Wait here(*peers_->roll, peers_->place(name_.what, name_.peer),
                              [work = started_.work] { work->abort(); });
    return started_.work->wait();
  }
  // The difference between the ranks, if they compare transfers; else the text.
  std::string why(const std::string& text) const {
    try {
      if (const auto difference = announced_ ? announced_->difference(*peers_) : ""; !difference.empty())
        return difference;
    } catch (const std::exception&) {
      // The store is gone; the original error says more.
    }
    return text;
  }

  std::shared_ptr<const Peers> peers_;
  TransferNames::Name name_;
  Started started_;
  std::optional<Announced> announced_;  // with option `check`
};

}  // namespace

std::unique_ptr<CollectiveWork<at::Tensor>> GlooGroup::start(const Transfer<at::Tensor>& transfer) {
  const at::NoGradGuard off;
  const auto name = names_.next(*peers_, transfer);
  const auto t = checked(*peers_, transfer, name.what);
  if (t.in.defined() && !t.in.is_cpu())
    invalid_transfer(
        *peers_, name.what,
        "the tensor is on " + t.in.device().str() + "; gloo transfers CPU tensors, collective/nccl the others");
  Started started;
  std::optional<Announced> announced;
  if (peers_->size() == 1) {
    started.result = [in = t.in] { return in; };
  } else {
    if (peers_->roll->called()) throw peers_->failure(name.what, "another rank's transfer failed", name.peer);
    if (check_) announced = check_->before(*peers_, t, name.what);
    try {
      started = start_transfer(*peers_, t);
    } catch (const std::exception& e) {
      throw peers_->failure(name.what, e.what(), name.peer);
    }
  }
  return std::make_unique<GlooWork>(peers_, name, std::move(started), std::move(announced));
}

}  // namespace kinora
