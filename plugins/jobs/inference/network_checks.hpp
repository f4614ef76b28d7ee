// The parts of a check that jobs with networks share. Networks are built on the meta device:
// their own checks run there, and nothing is allocated.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "core/run/job_check.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/network/tokenizer.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/parts.hpp"

namespace kinora::core {

// N, here and below: Model or Tokenizer.
template <class N>
std::unique_ptr<N> on_meta(const JobView& job, const ComponentUse& use,
                           std::optional<LoraOptions> lora = {}) {
  return with_plain_errors([&] {
    return std::make_unique<N>(job.open(use), use.options,
                               ChainOptions{.device = at::kMeta, .lora = std::move(lora)});
  });
}
// Checks that the option's device exists on this machine.
void check_device(JobCheck&);
// Checks a crop's or window's size: each dimension that the tokenizer cannot divide is a problem. Returns the
// latent's t, h, w.
std::optional<std::vector<int64_t>> check_size(JobCheck&, const kinora_tokenizer_info&,
                                               const std::string& tokenizer, int64_t frames, int64_t height,
                                               int64_t width);
// Checks that the given weights are a safetensors file, a folder of them or TorchScript archives.
void check_weights(JobCheck&, const std::string& option, const ComponentUse&);
void check_weights(JobCheck&, const std::string& option, const ComponentUse&, const WeightsPaths&);
// Checks that the tensors of existing weights match the network by name and shape.
void check_fit(JobCheck&, const std::string& option, Network&, const WeightsPaths&);
// Checks that the strategies accept the ranks of the launch: the layout, a step of this many microbatches (0:
// the job has no steps) and the network, which is null if it is invalid itself.
void check_layout(JobCheck&, const ComponentUse* network, const std::optional<LoraOptions>& lora,
                  int64_t microbatches);
// The precision's option `until`, the step from which on all layers are in many bits; 0: it has none, or none is given.
int64_t until_step(const JobSpec&);
// Checks the slots `text` and `words` of this job with their weights.
void check_text(JobCheck&);
// Refuses the folder of a whole pipeline among the job's weights, which are single networks': what else it says would
// be lost. Returns whether there is none.
bool check_single_networks(JobCheck&);
void check_image_encoder(JobCheck&);
// The network of the slot `model` or `tokenizer` on the meta device, checked against its weights. Not for a
// network that an earlier job trains: that job's own check covers it. adapt: changes the weights of the part
// before.
template <class N>
struct GivenPart {
  Part part;
  std::unique_ptr<N> network;
};
std::optional<GivenPart<Model>> check_model_part(JobCheck&,
                                                 const std::function<void(JobCheck&, Part&)>& adapt);
std::optional<GivenPart<Tokenizer>> check_tokenizer_part(JobCheck&);

}  // namespace kinora::core
