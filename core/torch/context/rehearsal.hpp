// The strategies of a job on rank 0 of a launch that is not there: what they refuse of a layout, a step or a
// network they refuse here, before anything runs. There are no weights, no rendezvous and no transfers.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "core/run/job.hpp"
#include "core/torch/context/mesh.hpp"
#include "core/torch/weights/lora.hpp"

namespace kinora::core {

class Rehearsal {
 public:
  // Each is made under a mesh of these sizes. Throws what it throws.
  Rehearsal(const JobView&, const MeshOwner::Sizes&);

  // The one that has a schedule is asked for the order of a step of so many microbatches. Throws its refusal.
  void step(int64_t microbatches) const;
  // Declares a network behind their links, on the meta device. A link serves one chain: once. Throws what
  // they or the network throw.
  void declare(const ComponentUse& network, std::optional<LoraOptions> lora) const;

 private:
  struct Made {
    Component component;
    std::unique_ptr<void, void (*)(void*)> instance;
  };
  const JobView& job_;
  MeshOwner mesh_;
  std::vector<Made> made_;
};

}  // namespace kinora::core
