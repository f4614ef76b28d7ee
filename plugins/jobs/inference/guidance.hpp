// A trained model as the denoiser that samplers call, with classifier-free guidance (Ho and Salimans 2022,
// arXiv 2207.12598).
#pragma once
#include <array>
#include <set>
#include <string>
#include <vector>

#include "core/torch/network/instances.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"
#include "plugins/jobs/inference/call_batch.hpp"
#include "plugins/jobs/inference/parts.hpp"
#include "plugins/jobs/inference/replays.hpp"
#include "plugins/jobs/inference/request.hpp"

namespace kinora::core {

// The model's inputs besides the latent and the timestep, [B, ...] each; a text is text and text_mask.
using Conditions = NamedTensors;

// Where a forward is in a video that is made chunk by chunk.
struct ChunkPlace {
  uint64_t session = 0;  // of the model's cache, if it has one
  Frames frames;
};

// The conditions of a piece of a video that a GuidedModel works on, as GuidedModel::prepared() makes them.
struct GuidedConditions {
  Conditions with, none, both;           // on the model's device
  std::array<Guidance, 2> guidance;      // of each expert
  int64_t calls = 0;                     // of the model for this video, on all ranks
  std::optional<ChunkPlace> place = {};  // not given: the model's frames are those of its chain
  // For a video without a place: its calls are made with others'. Null: alone.
  inference::BatchedVideo* batched = nullptr;
};

// Keeps nothing of a video between two calls but in the model's cache, so that calls for several videos may alternate.
// [owner-thread]
class GuidedModel {
 public:
  // signals: inputs of the model besides its manifest's. stream: dtype of the residual stream. device: of the
  // model; samplers need not know it, since their tensors are on the CPU. All arguments must outlive this
  // object.
  GuidedModel(Experts& experts, const ComponentSpec& spec, std::set<std::string> signals,
              const LossInstance& loss, at::ScalarType stream, uint64_t seed, at::Device device = at::kCPU);

  // Enables replaying model calls where they can be recorded; this object must not move afterwards.
  void replay_with(const kinora_cuda_api& cuda);
  // The experts compute something else from now on.
  void forget_replays() {
    if (replays_) replays_->forget();
  }
  // Lets the ranks of this group, one or two, compute a branch each and exchange the predictions; both must
  // make the same calls. The group must outlive this object.
  void share_branches(const kinora_group& ranks) { branches_ = Group<at::Tensor>(&ranks); }
  // Its calls belong to a training that has done `step` of `steps`: a precision may depend on it.
  void work_for(int64_t step, int64_t steps) { step_ = step, steps_ = steps; }
  // Gives given frames the timestep of the other frames.
  void share_timestep() { shares_timestep_ = true; }
  // [any-thread] `none` must have the names of `with`. guidance: one per expert.
  GuidedConditions prepared(Conditions with, Conditions none, const std::array<Guidance, 2>& guidance) const;
  // x [B, C, T, H, W] and sigma [B] or [B, T] as the loss mixes them, float64 -> x0, float64.
  at::Tensor operator()(GuidedConditions& video, const at::Tensor& x, const at::Tensor& sigma);
  // The clean pass of a video with a place: every prediction that guidance may ask for stores keys and values of x.
  void read(GuidedConditions& video, const at::Tensor& x, const at::Tensor& sigma);
  bool takes(const std::string& input) const { return inputs_.count(input) != 0; }

 private:
  // call: 2 * expert + branch. stores: keys and values.
  at::Tensor estimate(uint32_t call, const GuidedConditions& video, const Conditions& given,
                      const at::Tensor& x, const at::Tensor& sigma, bool stores = false);
  // evaluate() for a video without a place, by a graph if there are any; on the CPU.
  at::Tensor replayed(uint32_t call, const NamedTensors& in);
  // All on the device: the conditions, with x and sigma.
  at::Tensor evaluate(uint32_t call, const NamedTensors& in, const kinora_pass& pass);
  kinora_pass pass_of(uint32_t call) const;
  // Both predictions, with the condition and without.
  std::array<at::Tensor, 2> both(GuidedConditions& video, uint32_t expert, const at::Tensor& x,
                                 const at::Tensor& sigma);
  bool guided_at(const Guidance& guidance, const at::Tensor& sigma) const;
  // The expert for this timestep.
  uint32_t expert_at(const at::Tensor& x, const at::Tensor& sigma) const;

  Experts& experts_;
  bool shares_timestep_ = false;
  const LossInstance& loss_;
  std::set<std::string> inputs_;
  at::ScalarType stream_;
  uint64_t seed_;
  int64_t step_ = 0, steps_ = 0;
  at::Device device_;
  std::unique_ptr<Replays> replays_;
  Group<at::Tensor> branches_;
};

// Concatenates along the batch; texts of different lengths are padded, with masks.
Conditions joined(const Conditions& a, const Conditions& b);

}  // namespace kinora::core
