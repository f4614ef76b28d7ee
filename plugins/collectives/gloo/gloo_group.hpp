// Transfers of kinora.collective/1 over c10d's Gloo process group.
#pragma once
#include <memory>

#include "kinora/aten.hpp"
#include "kinora/collective.hpp"
#include "plugins/collectives/c10d/words.hpp"

namespace kinora {

class GlooGroup final : public CollectiveGroup<at::Tensor> {
 public:
  explicit GlooGroup(std::shared_ptr<const Peers> peers) : peers_(std::move(peers)) {}
  std::unique_ptr<CollectiveWork<at::Tensor>> start(const Transfer<at::Tensor>& t) override;

 private:
  std::shared_ptr<const Peers> peers_;
  TransferNames names_;
};

}  // namespace kinora
