// What a model is trained on: its outputs for a batch, noisy at some level or as it is, and the loss's
// numbers for them. The same for every model and loss: tensors go by the names in their manifests.
#pragma once
#include <set>

#include "core/torch/context/instances.hpp"
#include "core/torch/context/network.hpp"
#include "core/torch/media/latents.hpp"

namespace kinora::core {

// Throws Error(KINORA_INVALID) if the loss cannot be of these data: codes, or latents.
void require_data(const LossInstance& loss, bool codes);

class Objective {
 public:
  // parameters: dtype of latents and targets; stream: of what the model reads; device: of the network;
  // signals: inputs of the model besides its manifest's.
  Objective(LossInstance& loss, Network& network, const ComponentSpec& model, at::ScalarType parameters,
            at::ScalarType stream, at::Device device = at::kCPU, std::set<std::string> signals = {})
      : loss_(loss),
        network_(network),
        model_(model),
        parameters_(parameters),
        stream_(stream),
        device_(device),
        signals_(std::move(signals)) {}

  // Samples as one batch: `latent` [B, C, T, H, W] and `codes` [B, t, h, w] if they have them, `text` with
  // `text_mask`, and every other tensor of theirs that is an input of the model, stacked; those of several
  // lengths are padded with zeros if the model has an input NAME_mask. without_text [B] bool: whose text is
  // zeros. On the device, as noise must be; sigma may be anywhere.
  NamedTensors batch(const std::vector<LatentData::Item>& items, const at::Tensor& without_text) const;
  // The same on the CPU.
  NamedTensors cpu_batch(const std::vector<LatentData::Item>& items, const at::Tensor& without_text) const;

  // What the model reads for a batch, of its inputs.
  NamedTensors inputs(const NamedTensors& batch, const at::Tensor& sigma, const at::Tensor& noise) const;

  // Whether the loss draws noise; without, sigma and noise below are left out.
  bool noisy() const { return loss_.draws_noise(); }
  uint32_t mix() const { return loss_.mix(); }
  // The loss of each sample [B], with its graph.
  at::Tensor losses(const NamedTensors& batch, const at::Tensor& sigma, const at::Tensor& noise) const;
  // The clean latent that the model sees behind the noise.
  at::Tensor estimate(const NamedTensors& batch, const at::Tensor& sigma, const at::Tensor& noise) const;

 private:
  NamedTensors outputs(const NamedTensors& in) const;
  bool takes(const std::string& name) const;
  LossInstance& loss_;
  Network& network_;
  const ComponentSpec& model_;
  at::ScalarType parameters_, stream_;
  at::Device device_;
  std::set<std::string> signals_;
};

}  // namespace kinora::core
