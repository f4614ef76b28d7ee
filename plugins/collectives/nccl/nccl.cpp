// collective/nccl: transfers of GPU tensors, by c10d's NCCL process group.
//
// Transfers are enqueued: finish() makes the current stream wait, not this thread. So an error appears
// later, in c10d's watchdog, which aborts the communicator when a transfer's time is over; the next
// start() or finish() of the group then throws it, with the name of the failed transfer. CPU tensors
// are copied through the GPU, and their finish() waits.
//
// NCCL has no tags: messages between two ranks arrive in the order in which they were sent, and the
// receiver must start them in that order too. Messages to higher ranks and to lower ranks have separate
// communicators, so that two ranks that first send to each other and then receive do not wait forever.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unistd.h>

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "kinora/plugin.hpp"
#include "plugins/collectives/c10d/rendezvous.hpp"
#include "plugins/collectives/c10d/transfers.hpp"

namespace kinora {
namespace {

// A process group of these peers, whose communicators are created on first use.
using MakeBackend = std::function<c10::intrusive_ptr<c10d::Backend>(const Peers&)>;

// Shared by a group and its works.
class NcclTransfers {
 public:
  NcclTransfers(Peers peers, MakeBackend make);
  NcclTransfers(const NcclTransfers&) = delete;
  NcclTransfers& operator=(const NcclTransfers&) = delete;
  ~NcclTransfers();

  const Peers& peers() const { return peers_; }
  // Starts the transfer in its lane.
  Started start(const TransferNames::Name&, const Transfer<at::Tensor>&);
  // Throws an error that occurred since the last call.
  void check();

 private:
  struct Outstanding {
    TransferNames::Name name;
    c10::intrusive_ptr<c10d::Work> work;
  };
  const Peers& lane_of(const Transfer<at::Tensor>&);
  void abort();
  Peers peers_;
  MakeBackend make_;
  std::array<std::unique_ptr<Peers>, 2> lanes_;  // for messages to higher ranks, and to lower ranks
  std::mutex mutex_;
  std::deque<Outstanding> outstanding_;
  bool failed_ = false;
};

class NcclGroup final : public CollectiveGroup<at::Tensor> {
 public:
  NcclGroup(Peers peers, MakeBackend make)
      : transfers_(std::make_shared<NcclTransfers>(std::move(peers), std::move(make))) {}
  std::unique_ptr<CollectiveWork<at::Tensor>> start(const Transfer<at::Tensor>& t) override;

 private:
  std::shared_ptr<NcclTransfers> transfers_;
  TransferNames names_;
};

using at::Tensor;

class NcclWork final : public CollectiveWork<Tensor> {
 public:
  NcclWork(std::shared_ptr<NcclTransfers> transfers, TransferNames::Name name, Started started, bool from_cpu)
      : transfers_(std::move(transfers)),
        name_(std::move(name)),
        started_(std::move(started)),
        from_cpu_(from_cpu) {}
  Tensor finish() override {
    const at::NoGradGuard off;
    try {
      started_.work->wait();
    } catch (const std::exception& e) {
      throw transfers_->peers().failure(name_.what, e.what(), name_.peer);
    }
    Tensor out = started_.result();
    if (from_cpu_ && out.defined())
      out = out.cpu();  // here the thread waits, and notices an aborted transfer
    transfers_->check();
    return out;
  }

 private:
  std::shared_ptr<NcclTransfers> transfers_;
  TransferNames::Name name_;
  Started started_;
  bool from_cpu_;
};

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an unknown error";
  }
}

NcclTransfers::NcclTransfers(Peers peers, MakeBackend make)
    : peers_(std::move(peers)), make_(std::move(make)) {
  peers_.backend = make_(peers_);
  peers_.leave = [this] { abort(); };
}

NcclTransfers::~NcclTransfers() {
  if (failed_) {
    abort();
    return;
  }
  peers_.backend->shutdown();
  for (const auto& lane : lanes_)
    if (lane) lane->backend->shutdown();
}

void NcclTransfers::abort() {
  peers_.backend->abort();
  for (const auto& lane : lanes_)
    if (lane) lane->backend->abort();
}

const Peers& NcclTransfers::lane_of(const Transfer<at::Tensor>& t) {
  if (t.op != KINORA_OP_SEND && t.op != KINORA_OP_RECV) return peers_;
  const bool up = (t.op == KINORA_OP_SEND) == (t.peer > peers_.rank);
  auto& lane = lanes_[up ? 0 : 1];
  if (!lane) {
    lane = std::make_unique<Peers>(peers_);
    lane->store = c10::make_intrusive<c10d::PrefixStore>(up ? "up" : "down", peers_.store);
    lane->backend = make_(*lane);
  }
  return *lane;
}

Started NcclTransfers::start(const TransferNames::Name& name, const Transfer<at::Tensor>& t) {
  check();
  try {
    peers_.roll->stand(
        peers_.place(name.what, name.peer));  // until the next one, since no thread waits for its end
    Started started = start_transfer(lane_of(t), t);
    const std::scoped_lock lock(mutex_);
    outstanding_.push_back({name, started.work});
    return started;
  } catch (const std::exception& e) {
    failed_ = true;
    throw peers_.failure(name.what, e.what(), name.peer);
  }
}

void NcclTransfers::check() {
  std::unique_lock lock(mutex_);
  for (auto it = outstanding_.begin(); it != outstanding_.end();) {
    if (!it->work->isCompleted()) {
      ++it;
      continue;
    }
    if (const auto error = it->work->exception()) {
      const TransferNames::Name name = it->name;
      failed_ = true;
      outstanding_.clear();
      lock.unlock();
      throw peers_.failure(name.what, text_of(error), name.peer);
    }
    it = outstanding_.erase(it);
  }
}

std::unique_ptr<CollectiveWork<at::Tensor>> NcclGroup::start(const Transfer<at::Tensor>& transfer) {
  const at::NoGradGuard off;
  const Peers& peers = transfers_->peers();
  auto name = names_.next(peers, transfer);
  auto t = checked(peers, transfer, name.what);
  const bool from_cpu = t.in.defined() && t.in.is_cpu();
  if (from_cpu) t.in = t.in.to(peers.device);
  if (t.in.defined() && t.in.device() != peers.device)
    invalid_transfer(peers, name.what,
                     "the tensor is on " + t.in.device().str() + ", and this rank's GPU is " +
                         peers.device.str() + "; set device = \"cuda\", which gives each rank its own");
  Started started = transfers_->start(name, t);
  return std::make_unique<NcclWork>(transfers_, std::move(name), std::move(started), from_cpu);
}

c10::intrusive_ptr<c10d::Backend> make_backend(const Peers& p) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = p.timeout;
  const c10::cuda::CUDAGuard here(p.device);
  auto made = c10::make_intrusive<c10d::ProcessGroupNCCL>(p.store, static_cast<int>(p.rank),
                                                          static_cast<int>(p.size()), options);
  made->setBoundDeviceId(p.device);
  return made;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

class Nccl final : public Collective<at::Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("nccl").help("transfers of GPU tensors by NCCL; small CPU tensors travel through the GPU");
  }
  explicit Nccl(const Options&) {}

  void join(const kinora_world& world) override {
    if (store_) throw Error(KINORA_ERROR_INVALID, "nccl: this instance has already joined a world");
    if (world.size < 1 || world.rank < 0 || world.rank >= world.size || world.timeout_ms <= 0)
      throw Error(KINORA_ERROR_INVALID, "nccl: rank must be in [0, size), and the time limit above 0");
    const auto gpus = c10::cuda::device_count();
    if (gpus == 0) throw Error(KINORA_ERROR_UNSUPPORTED, "nccl: no GPU found; use collective = \"gloo\"");
    rank_ = world.rank;
    size_ = world.size;
    timeout_ = std::chrono::milliseconds(world.timeout_ms);
    store_ = meet("nccl", parse_rendezvous("nccl", world.rendezvous ? world.rendezvous : ""), world);
    roll_ = std::make_shared<RollCall>(store_->clone(), rank_, timeout_);
    const int64_t local = place_on_host();
    if (gpus > 1 && local >= gpus)
      throw Error(KINORA_ERROR_INVALID, "nccl: " + host_name() + " has " + std::to_string(gpus) +
                                            " GPUs and more ranks; start one rank per GPU");
    device_ = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(local % gpus));
    // After a timeout the watchdog aborts communicators, and leaves it to the process to report it.
    setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", 0);
  }

  std::unique_ptr<CollectiveGroup<at::Tensor>> group(const std::string& name,
                                                     const std::vector<int64_t>& members) override {
    Peers peers;
    const auto me = std::find(members.begin(), members.end(), rank_);
    const auto outside = [&](int64_t r) { return r < 0 || r >= size_; };
    if (!store_ || me == members.end() || std::any_of(members.begin(), members.end(), outside))
      throw Error(KINORA_ERROR_INVALID, "nccl: group '" + name +
                                            "' must consist of ranks of a joined world, including rank " +
                                            std::to_string(rank_));
    peers.collective = "nccl";
    peers.name = name;
    peers.members = members;
    peers.rank = me - members.begin();
    peers.timeout = timeout_;
    peers.roll = roll_;
    peers.device = device_;
    std::string prefix = "group/" + name;  // two groups of one name have different members
    for (const int64_t m : members) prefix += "," + std::to_string(m);
    peers.store = c10::make_intrusive<c10d::PrefixStore>(prefix, store_);
    return std::make_unique<NcclGroup>(std::move(peers), make_backend);
  }

 private:
  // The number of lower ranks on this host. Under srun each rank may see only its own GPU, as the first.
  int64_t place_on_host() const {
    const auto key = [](int64_t r) { return "host/" + std::to_string(r); };
    const std::string mine = host_name();
    store_->set(key(rank_), std::vector<uint8_t>(mine.begin(), mine.end()));
    int64_t place = 0;
    for (int64_t r = 0; r < rank_; ++r) {
      const auto bytes = store_->get(key(r));
      place += std::string(bytes.begin(), bytes.end()) == mine;
    }
    return place;
  }

  int64_t rank_ = 0, size_ = 1;
  std::chrono::milliseconds timeout_{};
  at::Device device_ = at::kCPU;
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<RollCall> roll_;
};
KINORA_COMPONENT(Nccl)
KINORA_PLUGIN(Nccl)

}  // namespace kinora
