// Runs a job's strategies and its precision on rank 0 of an imaginary launch: a layout, step or network that
// they reject is rejected here, before anything runs. It uses neither weights, rendezvous nor transfers.
#pragma once
#include <optional>
#include <vector>

#include "core/plugin/opening.hpp"
#include "core/run/job.hpp"
#include "core/torch/ranks/mesh.hpp"
#include "core/torch/weights/lora.hpp"

namespace kinora::core {

class Rehearsal {
 public:
  // Creates each strategy with a mesh of these sizes. Throws its errors.
  Rehearsal(const JobView&, const MeshOwner::Sizes&);

  // Asks the strategy that has a schedule for the order of a step of this many microbatches. Throws its
  // error.
  void step(int64_t microbatches) const;
  // Declares a network behind their links and the precision's, on the meta device. To be called once, since a
  // link serves one chain. Throws the errors of the links and of the network. Returns whether the precision
  // is one of few bits and yet rounds no layer of this network.
  bool declare(const ComponentUse& network, std::optional<LoraOptions> lora) const;
  // The same in one process, behind the precision's link alone: whether an error is the precision's in any
  // layout.
  bool declare_alone(const ComponentUse& network, std::optional<LoraOptions> lora) const;

 private:
  struct Made {
    Component component;
    Instance instance;
  };
  bool declare(const ComponentUse& network, std::optional<LoraOptions> lora,
               std::vector<const kinora_link*> links, const kinora_mesh* mesh) const;
  const JobView& job_;
  MeshOwner mesh_;
  std::vector<Made> made_;
};

}  // namespace kinora::core
