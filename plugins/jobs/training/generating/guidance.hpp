// A trained model as the denoiser that samplers call, with classifier-free guidance (Ho and Salimans 2022,
// arXiv 2207.12598).
#pragma once
#include <array>
#include <set>
#include <string>
#include <vector>

#include "core/torch/context/instances.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"
#include "plugins/jobs/training/generating/parts.hpp"
#include "plugins/jobs/training/generating/replays.hpp"

namespace kinora::core {

struct Guidance {
  double scale = 1;  // none + scale * (with - none); 1: `with` alone, 0: `none` alone
  // Levels sigma (x0 + sigma n) at which guidance applies; elsewhere `with` alone (Kynkaanniemi et al. 2024,
  // arXiv 2404.07724).
  double from = 0, to = std::numeric_limits<double>::infinity();
  bool batched = false;  // both predictions in one model call

  // NVIDIA's convention counts from the conditional prediction: with + g * (with - none), so 0 is `with`
  // alone.
  static Guidance nemo(double g) { return {.scale = g + 1}; }
};

// The model's inputs besides the latent and the timestep, [B, ...] each; a text is text and text_mask.
using Conditions = NamedTensors;

class GuidedModel {
 public:
  // signals: inputs of the model besides its manifest's. stream: dtype of the residual stream. device: of the
  // model; samplers need not know it, since their tensors are on the CPU. All arguments must outlive this
  // object.
  GuidedModel(Experts& experts, const ComponentSpec& spec, std::set<std::string> signals,
              const LossInstance& loss, at::ScalarType stream, uint64_t seed, at::Device device = at::kCPU);

  // Enables replaying model calls where they can be recorded; this object must not move afterwards.
  void replay_with(const kinora_cuda_api& cuda);
  // Lets the ranks of this group, one or two, compute a branch each and exchange the predictions; both must
  // make the same calls. The group must outlive this object.
  void share_branches(const kinora_group& ranks) { branches_ = Group<at::Tensor>(&ranks); }
  // Gives given frames the timestep of the other frames.
  void share_timestep() { shares_timestep_ = true; }
  // `none` must have the names of `with`. guidance: one per expert.
  void ask(Conditions with, Conditions none, const std::array<Guidance, 2>& guidance);
  // x [B, C, T, H, W] and sigma [B] or [B, T] as the loss mixes them, float64 -> x0, float64.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& sigma);
  bool takes(const std::string& input) const { return inputs_.count(input) != 0; }
  int64_t calls() const { return calls_; }  // of the model, on all ranks

 private:
  at::Tensor estimate(const at::Tensor& x, const at::Tensor& sigma, const Conditions& given, uint32_t branch);
  // All on the device: the conditions, with x and sigma. call: 2 * expert + branch.
  at::Tensor evaluate(uint32_t call, const NamedTensors& in);
  // Both predictions, with the condition and without.
  std::array<at::Tensor, 2> both(const at::Tensor& x, const at::Tensor& sigma);
  bool guided_at(const at::Tensor& sigma) const;
  // The expert for this timestep.
  uint32_t expert_at(const at::Tensor& x, const at::Tensor& sigma) const;

  Experts& experts_;
  uint32_t expert_ = 0;  // the current expert
  bool shares_timestep_ = false;
  const LossInstance& loss_;
  std::set<std::string> inputs_;
  at::ScalarType stream_;
  uint64_t seed_;
  at::Device device_;
  Conditions with_, none_, both_;
  std::unique_ptr<Replays> replays_;
  std::array<Guidance, 2> guidance_;
  int64_t calls_ = 0;
  Group<at::Tensor> branches_;
};

// Concatenates along the batch; texts of different lengths are padded, with masks.
Conditions joined(const Conditions& a, const Conditions& b);

}  // namespace kinora::core
