#include "plugins/collectives/gloo/gloo_group.hpp"

#include <ATen/core/grad_mode.h>

#include "plugins/collectives/c10d/transfers.hpp"

namespace kinora {

namespace {

using at::Tensor;

class GlooWork final : public CollectiveWork<Tensor> {
 public:
  GlooWork(std::shared_ptr<const Peers> peers, std::string what, int64_t peer, Started started,
           std::optional<Announced> announced)
      : peers_(std::move(peers)),
        what_(std::move(what)),
        peer_(peer),
        started_(std::move(started)),
        announced_(std::move(announced)) {}
  Tensor finish() override {
    try {
      if (started_.work) started_.work->wait();
    } catch (const std::exception& e) {
      throw peers_->failure(what_, why(e), peer_);
    }
    const at::NoGradGuard off;
    return started_.result();
  }

 private:
  std::string why(const std::exception& e) const {
    try {
      if (const auto difference = announced_ ? announced_->difference(*peers_) : ""; !difference.empty())
        return difference;
    } catch (const std::exception&) {
      // The store is gone; what failed says more.
    }
    return e.what();
  }
  std::shared_ptr<const Peers> peers_;
  std::string what_;
  int64_t peer_;
  Started started_;
  std::optional<Announced> announced_;  // with the option check
};

}  // namespace

std::unique_ptr<CollectiveWork<at::Tensor>> GlooGroup::start(const Transfer<at::Tensor>& transfer) {
  const at::NoGradGuard off;
  const auto name = names_.next(*peers_, transfer);
  const auto t = checked(*peers_, transfer, name.what);
  if (t.in.defined() && !t.in.is_cpu())
    invalid_transfer(
        *peers_, name.what,
        "the tensor is on " + t.in.device().str() + "; gloo moves CPU tensors, collective/nccl the others");
  Started started;
  std::optional<Announced> announced;
  if (peers_->size() == 1) {
    started.result = [in = t.in] { return in; };
  } else {
    if (check_) announced = check_->before(*peers_, t, name.what);
    try {
      started = start_transfer(*peers_, t);
    } catch (const std::exception& e) {
      throw peers_->failure(name.what, e.what(), name.peer);
    }
  }
  return std::make_unique<GlooWork>(peers_, name.what, name.peer, std::move(started), std::move(announced));
}

}  // namespace kinora
