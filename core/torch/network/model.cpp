#include "core/torch/network/model.hpp"

#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

// Adds to the run's rule what the model declares about itself.
ChainOptions with_its_rule(ChainOptions chain, const kinora_model& model) {
  chain.frames.before = chain.frames.before || model.sees == KINORA_SEES_CAUSAL;
  return chain;
}

}  // namespace

Model::Model(const Component& component, const Options& options, const ChainOptions& chain,
             std::vector<const kinora_link*> links)
    : Network(component, options, with_its_rule(chain, component.table<kinora_model>()), std::move(links),
              [&](auto* head) { return instance_of<kinora_model>(component, options, head); }),
      table_(component.table<kinora_model>()) {}

std::vector<at::Tensor> Model::forward(const NamedTensors& in) {
  std::vector<kinora_named> named;
  for (const auto& [name, tensor] : in)
    if (tensor.defined()) named.push_back({name.c_str(), handle(tensor)});
  std::vector<kinora_tensor> out(component_.spec->outputs.size(), nullptr);
  const int32_t status =
      table_.forward(self_.get(), chain_.head(), named.data(), named.size(), out.data(), out.size());
  if (status == KINORA_SIGNAL_STOP) throw Stop{};
  called(status, id());
  std::vector<at::Tensor> made;
  for (auto h : out) made.push_back(adopt<at::Tensor>(h));
  // The first is the output; the others may depend on options.
  if (!made.empty() && !made[0].defined())
    throw Error(KINORA_ERROR_FAILED,
                id() + ": forward returned no '" + component_.spec->outputs[0].name + "'");
  return made;
}

}  // namespace kinora::core
