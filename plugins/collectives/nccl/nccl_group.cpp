#include "plugins/collectives/nccl/nccl_group.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace kinora {

namespace {

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
    if (from_cpu_ && out.defined()) out = out.cpu();  // here the thread waits, and notices an aborted transfer
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

}  // namespace

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
  if (t.op != KINORA_SEND && t.op != KINORA_RECV) return peers_;
  const bool up = (t.op == KINORA_SEND) == (t.peer > peers_.rank);
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
    peers_.roll->stand(peers_.place(name.what, name.peer));  // until the next one, since no thread waits for its end
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

}  // namespace kinora
