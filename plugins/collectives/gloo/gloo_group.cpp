#include "plugins/collectives/gloo/gloo_group.hpp"

#include <algorithm>
#include <limits>

#include <ATen/WrapDimUtils.h>
#include <ATen/core/grad_mode.h>

#include "plugins/collectives/gloo/transfers.hpp"

namespace kinora {

namespace {

using at::Tensor;

class GlooWork final : public CollectiveWork<Tensor> {
 public:
  GlooWork(std::shared_ptr<const Peers> peers, std::string what, int64_t peer, Started started)
      : peers_(std::move(peers)), what_(std::move(what)), peer_(peer), started_(std::move(started)) {}
  Tensor finish() override {
    try {
      if (started_.work) started_.work->wait();
    } catch (const std::exception& e) {
      throw peers_->failure(what_, e.what(), peer_);
    }
    const at::NoGradGuard off;
    return started_.result();
  }

 private:
  std::shared_ptr<const Peers> peers_;
  std::string what_;
  int64_t peer_;
  Started started_;
};

const char* name_of(uint32_t op) {
  constexpr const char* names[] = {"sum",       "max",  "gather", "scatter-sum", "exchange",
                                   "broadcast", "send", "recv",   "barrier"};
  if (op > KINORA_BARRIER)
    throw Error(KINORA_UNSUPPORTED, "gloo: transfer number " + std::to_string(op) + " is unknown");
  return names[op];
}

// "recv #2 from rank 5 with tag 7", by world rank.
std::string message_name(const Peers& p, const Transfer<Tensor>& t, int64_t number) {
  const bool known = t.peer >= 0 && t.peer < p.size();
  return std::string(name_of(t.op)) + " #" + std::to_string(number) +
         (t.op == KINORA_SEND ? " to rank " : " from rank ") +
         std::to_string(known ? p.members[static_cast<size_t>(t.peer)] : t.peer) + " with tag " +
         std::to_string(t.tag);
}

[[noreturn]] void invalid(const std::string& what, const std::string& why) {
  throw Error(KINORA_INVALID, "gloo: " + what + ": " + why);
}

// Wraps dimensions and refuses what would hang or crash the other side.
Transfer<Tensor> checked(const Peers& p, Transfer<Tensor> t, const std::string& what) {
  if (t.op == KINORA_BARRIER) return t;
  if (!t.in.defined()) invalid(what, "it needs a tensor");
  if (!t.in.is_cpu())
    invalid(what, "the tensor is on " + t.in.device().str() +
                      "; gloo moves CPU tensors, collective/nccl the others");
  constexpr at::ScalarType sums[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                     at::kLong,  at::kInt,    at::kChar, at::kByte};
  const bool adds = t.op == KINORA_SUM || t.op == KINORA_MAX;
  if (adds && std::find(std::begin(sums), std::end(sums), t.in.scalar_type()) == std::end(sums))
    invalid(what, std::string("it cannot combine ") + at::toString(t.in.scalar_type()));
  const bool has_peer = t.op == KINORA_BROADCAST || t.op == KINORA_SEND || t.op == KINORA_RECV;
  if (has_peer && (t.peer < 0 || t.peer >= p.size()))
    invalid(what,
            "there is no rank " + std::to_string(t.peer) + " in a group of " + std::to_string(p.size()));
  if (t.op == KINORA_SEND || t.op == KINORA_RECV) {
    if (t.peer == p.rank) invalid(what, "a rank cannot send to itself");
    if (t.tag < 0 || t.tag > std::numeric_limits<int>::max())
      invalid(what, "tag " + std::to_string(t.tag) + " is not in [0, 2^31)");
  }
  const bool cuts = t.op == KINORA_SCATTER_SUM || t.op == KINORA_EXCHANGE;
  if (t.op != KINORA_GATHER && !cuts) return t;
  t.dim = at::maybe_wrap_dim(t.dim, t.in.dim());
  if (t.op == KINORA_EXCHANGE) t.dim2 = at::maybe_wrap_dim(t.dim2, t.in.dim());
  if (cuts && t.in.size(t.dim) % p.size() != 0)
    invalid(what, "dimension " + std::to_string(t.dim) + " of size " + std::to_string(t.in.size(t.dim)) +
                      " does not divide by " + std::to_string(p.size()) + " ranks");
  return t;
}

}  // namespace

std::unique_ptr<CollectiveWork<at::Tensor>> GlooGroup::start(const Transfer<at::Tensor>& transfer) {
  const at::NoGradGuard off;
  const bool one_to_one = transfer.op == KINORA_SEND || transfer.op == KINORA_RECV;
  const std::string what = one_to_one
                               ? message_name(*peers_, transfer, ++messages_)
                               : std::string(name_of(transfer.op)) + " #" + std::to_string(++collectives_);
  auto t = checked(*peers_, transfer, what);
  if (t.in.defined()) t.in = t.in.detach();
  Started started;
  if (peers_->size() == 1) {
    started.result = [in = t.in] { return in; };
  } else {
    try {
      started = start_transfer(*peers_, t);
    } catch (const std::exception& e) {
      throw peers_->failure(what, e.what(), one_to_one ? t.peer : -1);
    }
  }
  return std::make_unique<GlooWork>(peers_, what, one_to_one ? t.peer : -1, std::move(started));
}

}  // namespace kinora
