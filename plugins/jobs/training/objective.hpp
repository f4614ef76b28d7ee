// Computes what a model is trained on: its outputs for a batch, noisy at some level or clean, and the loss of
// them. The same for every model and loss: tensors are matched by the names in their manifests.
#pragma once
#include <optional>
#include <set>

#include "core/torch/network/instances.hpp"
#include "core/torch/network/model.hpp"
#include "plugins/jobs/inference/frames.hpp"
#include "plugins/jobs/latents/latents.hpp"

namespace kinora::core {

// The given frames of a batch: the first frames[b] latent frames of sample b, which the model sees at
// level[b] and which are not learned. Empty `frames`: none are given.
struct Given {
  std::vector<int64_t> frames;
  at::Tensor level;    // [B] float64, in the units of the loss
  bool noisy = false;  // noise of that level is really added (Cosmos-Predict 1); else they are clean
  bool shares_timestep = false;  // the model reads the timestep of the other frames for them
};

// Teacher forcing with errors added (error_bank.hpp): what the clean stream shows and what noise is mixed
// into, both of the latent's shape; the target is still that of the latent.
struct Disturbed {
  at::Tensor context, latent;
  at::Tensor prediction;  // set by Objective::losses(): the model's, without its graph
};

// Throws Error(KINORA_ERROR_INVALID) if the loss does not accept this kind of data: codes or latents.
void require_data(const LossInstance& loss, bool codes);
// Checks that up to `most` of a latent's `all` frames can be given to this model; throws
// Error(KINORA_ERROR_INVALID).
void require_given(int64_t most, int64_t all, ConditionInput input, const std::string& model);

class Objective {
 public:
  // parameters: dtype of latents and targets; stream: dtype of the model's inputs; device: of the network;
  // signals: inputs of the model besides its manifest's; in_channels: channels that the model reads, 0: the
  // latent's. clean: teacher forcing, with the level that the model reads for clean frames, in the units of
  // the loss: it reads each latent clean, followed in time by its noisy copy, and only the copy has a loss.
  // The attention rule is the network's (two streams). no_text: [L, D], the text of samples without one;
  // undefined: zeros.
  Objective(LossInstance& loss, Model& network, const ComponentSpec& model, at::ScalarType parameters,
            at::ScalarType stream, at::Device device = at::kCPU, std::set<std::string> signals = {},
            int64_t in_channels = 0, std::optional<double> clean = {}, at::Tensor no_text = {})
      : loss_(loss),
        network_(network),
        model_(model),
        parameters_(parameters),
        stream_(stream),
        device_(device),
        signals_(std::move(signals)),
        in_channels_(in_channels),
        clean_(clean),
        no_text_(std::move(no_text)) {}

  // Samples as one batch: `latent` [B, C, T, H, W] and `codes` [B, t, h, w] if present, `text` with
  // `text_mask`, and all their other tensors that are inputs of the model, stacked; tensors of different
  // lengths are padded with zeros if the model has an input NAME_mask. without_text [B] bool: the samples
  // whose text is dropped. Texts of shots are in turn, each padded to the longest (shot_text_link.hpp). On
  // the device, as noise must be; sigma may be anywhere. as_row: latents of any sizes as one packed row,
  // `latent` [1, C, N] with `sizes` int64 [B, 3], T, H and W of each (kinora/videos.hpp); noise then has the
  // latent's shape, sigma is [B], and no frames are given.
  NamedTensors batch(const std::vector<LatentData::Item>& items, const at::Tensor& without_text,
                     bool as_row = false) const;
  // The same on the CPU.
  NamedTensors cpu_batch(const std::vector<LatentData::Item>& items, const at::Tensor& without_text,
                         bool as_row = false) const;

  // The model's inputs for a batch; given frames appear as in a generation.
  NamedTensors inputs(const NamedTensors& batch, const at::Tensor& sigma, const at::Tensor& noise,
                      const Given& given = {}) const;
  // The same for a noisy latent that is not batch["latent"] with noise: noisy [B, C, T, H, W] at levels [B] or [B, T],
  // on the device. With teacher forcing its clean stream is batch["latent"], of noisy's shape, and levels are [B, T].
  NamedTensors noisy_inputs(const NamedTensors& batch, const at::Tensor& noisy,
                            const at::Tensor& levels) const;

  // Whether the loss draws noise; if not, sigma and noise below are left out.
  bool noisy() const { return loss_.draws_noise(); }
  const LossInstance& loss() const { return loss_; }
  uint32_t mix() const { return loss_.mix(); }
  // sigma: [B], or [B, T] with one level per frame.
  // The loss of each sample [B], with its graph: zero on given frames, which its mean still counts, so that
  // every learned number has the same weight (Cosmos-Predict 2).
  at::Tensor losses(const NamedTensors& batch, const at::Tensor& sigma, const at::Tensor& noise,
                    const Given& given = {}, Disturbed* disturbed = nullptr) const;
  // Whether a latent's mask is among the model's inputs.
  ConditionInput condition_input(const at::Tensor& latent) const;

 private:
  NamedTensors outputs(const NamedTensors& in) const;
  bool takes(const std::string& name) const;
  // The noisy latent and its levels, [B] or one per frame; with teacher forcing both streams, the clean one
  // given.
  struct Noised {
    at::Tensor x, sigma, given;  // given: bool [B, 1, T, 1, 1]; undefined if there are none
    at::Tensor timestep_level;   // the level of the timestep; undefined: sigma
  };
  Noised noised(const at::Tensor& latent, const at::Tensor& sigma, const at::Tensor& noise,
                const Given& given) const;
  Noised noised_row(const at::Tensor& latent, const at::Tensor& sizes, const at::Tensor& sigma,
                    const at::Tensor& noise) const;
  // The model's latent and timestep; sizes: of a row, else undefined.
  LossInstance::Input model_input(const Noised& noised, const at::Tensor& sizes) const;
  at::Tensor losses_of_row(const NamedTensors& in, const at::Tensor& sizes) const;
  Noised two_streams(const at::Tensor& latent, const at::Tensor& sigma, const at::Tensor& noise) const;
  Noised joined_streams(const at::Tensor& latent, const at::Tensor& noisy, const at::Tensor& levels) const;
  NamedTensors inputs(const NamedTensors& batch, const Noised& noised) const;
  NamedTensors disturbed_inputs(NamedTensors batch, const at::Tensor& sigma, const at::Tensor& noise,
                                const Disturbed& disturbed) const;
  at::Tensor losses_of_rest(const NamedTensors& in, const Given& given) const;
  bool adds_up(const NamedTensors& in) const;
  LossInstance& loss_;
  Model& network_;
  const ComponentSpec& model_;
  at::ScalarType parameters_, stream_;
  at::Device device_;
  std::set<std::string> signals_;
  int64_t in_channels_;
  std::optional<double> clean_;
  at::Tensor no_text_;
  mutable std::optional<bool> adds_up_;
};

}  // namespace kinora::core
