// collective/gloo: transfers of CPU tensors over TCP, by the Gloo that is inside libtorch.
#include <algorithm>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <signal.h>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "kinora/aten.hpp"
#include "kinora/collective.hpp"
#include "kinora/plugin.hpp"
#include "plugins/collectives/c10d/listener.hpp"
#include "plugins/collectives/c10d/rendezvous.hpp"
#include "plugins/collectives/c10d/transfers.hpp"
#include "plugins/collectives/gloo/transfer_check.hpp"

namespace kinora {
namespace {

// While it lives, a write of this thread to a rank that has left is an error and no SIGPIPE, which would end a
// program that keeps that signal's default. Threads that are made meanwhile keep it so.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() {
    const timespec now{};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{}, before_{};
};

class GlooGroup final : public CollectiveGroup<at::Tensor> {
 public:
  // check: first compares every transfer with that of the other ranks.
  GlooGroup(std::shared_ptr<const Peers> peers, bool check) : peers_(std::move(peers)) {
    if (check) check_.emplace();
  }
  std::unique_ptr<CollectiveWork<at::Tensor>> start(const Transfer<at::Tensor>& t) override;

 private:
  std::shared_ptr<const Peers> peers_;
  TransferNames names_;
  std::optional<TransferCheck> check_;
};

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

std::unique_ptr<CollectiveWork<at::Tensor>> GlooGroup::start(const Transfer<at::Tensor>& transfer) {
  const at::NoGradGuard off;
  const auto name = names_.next(*peers_, transfer);
  const auto t = checked(*peers_, transfer, name.what);
  if (t.in.defined() && !t.in.is_cpu())
    invalid_transfer(*peers_, name.what,
                     "the tensor is on " + t.in.device().str() +
                         "; gloo transfers CPU tensors, collective/nccl the others");
  Started started;
  std::optional<Announced> announced;
  if (peers_->size() == 1) {
    started.result = [in = t.in] { return in; };
  } else {
    if (peers_->roll->called()) throw peers_->failure(name.what, "another rank's transfer failed", name.peer);
    if (check_) announced = check_->before(*peers_, t, name.what);
    try {
      const WithoutSigpipe whole;
      started = start_transfer(*peers_, t);
    } catch (const std::exception& e) {
      throw peers_->failure(name.what, e.what(), name.peer);
    }
  }
  return std::make_unique<GlooWork>(peers_, name, std::move(started), std::move(announced));
}

// c10d's group, which can be left at once: its connections end, and with them the waits of the other ranks.
class GlooConnections final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  void close() {
    for (const auto& context : contexts_) context->closeConnections();
  }
};

}  // namespace

class Gloo final : public Collective<at::Tensor> {
 public:
  struct Options {
    bool check = false;
  };
  static void describe(Describe<Options>& d) {
    d.name("gloo").help("transfers of CPU tensors over TCP");
    d.option("check", &Options::check)
        .help(
            "comparison of operation, number, dtype and size of each transfer among the ranks before it "
            "starts, "
            "with an error that names the "
            "rank that differs; slow, for debugging a strategy");
  }
  explicit Gloo(const Options& o) : check_(o.check) {}

  void join(const kinora_world& world) override {
    if (store_) throw Error(KINORA_ERROR_INVALID, "gloo: this instance has already joined a world");
    if (world.size < 1 || world.rank < 0 || world.rank >= world.size || world.timeout_ms <= 0)
      throw Error(KINORA_ERROR_INVALID, "gloo: rank must be in [0, size), and the time limit above 0");
    rank_ = world.rank;
    size_ = world.size;
    timeout_ = std::chrono::milliseconds(world.timeout_ms);
    if (size_ == 1) return;
    const Rendezvous at = parse_rendezvous("gloo", world.rendezvous ? world.rendezvous : "");
    if (world.interface_address) {
      address_ = world.interface_address;
    } else {
      address_ = at.tcp() ? own_address(at.host, at.port) : "127.0.0.1";
    }
    store_ = meet("gloo", at, world);
    roll_ = std::make_shared<RollCall>(store_->clone(), rank_, timeout_);
  }

  std::unique_ptr<CollectiveGroup<at::Tensor>> group(const std::string& name,
                                                     const std::vector<int64_t>& members) override {
    auto peers = std::make_shared<Peers>();
    const auto me = std::find(members.begin(), members.end(), rank_);
    const auto outside = [&](int64_t r) { return r < 0 || r >= size_; };
    if (me == members.end() || std::any_of(members.begin(), members.end(), outside))
      throw Error(KINORA_ERROR_INVALID, "gloo: group '" + name +
                                            "' must consist of ranks of this world, including rank " +
                                            std::to_string(rank_));
    peers->collective = "gloo";
    peers->name = name;
    peers->members = members;
    peers->rank = me - members.begin();
    peers->timeout = timeout_;
    peers->roll = roll_;
    if (members.size() > 1) connect(*peers);
    return std::make_unique<GlooGroup>(std::move(peers), check_);
  }

 private:
  // Every member waits here for the others.
  void connect(Peers& p) const {
    using c10d::ProcessGroupGloo;
    std::string prefix =
        "group/" + p.name;  // two groups of one name (the rows of a mesh) have different members
    for (const int64_t m : p.members) prefix += "," + std::to_string(m);
    p.store = c10::make_intrusive<c10d::PrefixStore>(prefix, store_);
    const auto options = ProcessGroupGloo::Options::create(timeout_);
    try {
      const WithoutSigpipe whole;
      options->devices.push_back(address_.empty() ? ProcessGroupGloo::createDefaultDevice()
                                                  : ProcessGroupGloo::createDeviceForHostname(address_));
      const auto made = c10::make_intrusive<GlooConnections>(p.store, static_cast<int>(p.rank),
                                                             static_cast<int>(p.size()), options);
      wait_for_all(p);
      p.backend = made;
      p.leave = [made] { made->close(); };
    } catch (const std::exception& e) {
      throw p.failure("connecting", e.what());
    }
  }

  // A member that is connected may be needed by others that are not: if it left now, their connecting would
  // fail.
  void wait_for_all(const Peers& p) const {
    const auto key = [](int64_t rank) { return "connected/" + std::to_string(rank); };
    std::vector<std::string> all;
    for (int64_t r = 0; r < p.size(); ++r) all.push_back(key(r));
    p.store->set(key(p.rank), std::vector<uint8_t>{1});
    p.store->wait(all, timeout_);
  }

  bool check_;
  int64_t rank_ = 0, size_ = 1;
  std::chrono::milliseconds timeout_{};
  std::string address_;  // empty: the address of the host's name
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<RollCall> roll_;
};
KINORA_COMPONENT(Gloo)
KINORA_PLUGIN(Gloo)

}  // namespace kinora
