// Transfers of kinora.collective/1 over c10d's NCCL process group.
//
// Transfers are enqueued: finish() makes the current stream wait, not this thread. So an error appears
// later, in c10d's watchdog, which aborts the communicator when a transfer's time is over; the next
// start() or finish() of the group then throws it, with the name of the failed transfer. CPU tensors
// are copied through the GPU, and their finish() waits.
//
// NCCL has no tags: messages between two ranks arrive in the order in which they were sent, and the
// receiver must start them in that order too. Messages to higher ranks and to lower ranks have separate
// communicators, so that two ranks that first send to each other and then receive do not wait forever.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "plugins/collectives/c10d/transfers.hpp"
#include "plugins/collectives/c10d/words.hpp"

namespace kinora {

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

}  // namespace kinora
