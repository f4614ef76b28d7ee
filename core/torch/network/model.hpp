// A model of a run.
#pragma once
#include "core/torch/network/network.hpp"
#include "kinora/abi/model.h"

namespace kinora::core {

class Model final : public Network {
 public:
  Model(const Component&, const Options&, const ChainOptions&, std::vector<const kinora_link*> links = {});

  // Takes inputs by name, undefined ones left out, and returns the outputs in the manifest's order. Throws Stop if
  // a later pipeline stage has the output.
  std::vector<at::Tensor> forward(const NamedTensors& in);

 private:
  const kinora_model& table_;
};

}  // namespace kinora::core
