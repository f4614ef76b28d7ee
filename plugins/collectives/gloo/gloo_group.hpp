// Transfers of kinora.collective/1 over c10d's Gloo process group.
#pragma once
#include <memory>
#include <optional>

#include "kinora/aten.hpp"
#include "kinora/collective.hpp"
#include "plugins/collectives/c10d/words.hpp"
#include "plugins/collectives/gloo/transfer_check.hpp"

namespace kinora {

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

}  // namespace kinora
