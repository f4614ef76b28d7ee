// Ways of distilling before distribution matching, which learn from the teacher's steps and not from the student's own
// videos. The student is taught with teacher forcing: its clean stream is a given video, and its noisy stream has a
// level of its own in each chunk.
//
// B samples, C channels, T latent frames, H rows, W columns, N levels of the job's sampler, K levels of the teacher.
#pragma once
#include "plugins/jobs/distill/distill_task.hpp"

namespace kinora::core {

// Causal ODE (CausVid, arXiv 2412.07772, section 4.3): the teacher makes videos by Euler steps from noise, and keeps
// what it had at the levels of the sampler. From these the student learns to estimate their end.
class CausalOde final : public DistillTask {
 public:
  CausalOde(JobContext&, const DistillOptions&);

 private:
  MicroLoss micro_loss(size_t role, int64_t first, int64_t count) override;
  // Pair p, [N + 1, C, T, H, W], of which the last is the video: from its file, or made by all ranks if one of them has
  // none. in: the pair's inputs.
  at::Tensor trajectory(int64_t p, const Batch& in);

  SelfForcing rollouts_of_teacher_;
  int64_t euler_steps_;  // between two levels
};

// Causal consistency (Causal-Forcing, thu-ml; Song et al. 2023, arXiv 2303.01469): at a noisy latent the student
// estimates what its average estimates one Euler step of the guided teacher further. No videos are made.
class CausalConsistency final : public DistillTask {
 public:
  CausalConsistency(JobContext& context, const DistillOptions& o) : DistillTask(context, o) {}

 private:
  MicroLoss micro_loss(size_t role, int64_t first, int64_t count) override;
  // The estimate of the student's first average, or of the student itself without one.
  at::Tensor average_estimate(const NamedTensors& batch, const at::Tensor& noisy, const at::Tensor& levels);
};

}  // namespace kinora::core
