// Distribution matching distillation (DMD, arXiv 2311.18828 and 2405.14867) on the student's own rollouts
// (Self-Forcing, arXiv 2506.08009), for a model that makes a video chunk by chunk.
//
// The teacher gives the real score and is frozen, the critic gives the fake one. `scores` says what both see:
// each noisy chunk after the clean chunks of the rollout, as in teacher forcing; each noisy chunk after the noisy ones
// before it (LongLive 2.0); or the whole noisy video at once (Self-Forcing). The teacher may have an architecture of
// its own. With several windows a video (long_rollouts.hpp) they see the new window alone, as a video.
#pragma once
#include "plugins/jobs/distill/distill_task.hpp"
#include "plugins/jobs/distill/long_rollouts.hpp"

namespace kinora::core {

class Matching final : public DistillTask {
 public:
  Matching(JobContext&, const DistillOptions&);

 private:
  // A microbatch whose latent is the student's own video, as teacher and critic see it.
  struct Rolled : Batch {
    SelfForced made;           // the frames that the student learns: the last ones, or all
    at::Tensor levels, noise;  // of the scores: [B] or [B, T], and of the latent's shape
  };
  // The student's video of a microbatch, for the critic.
  struct Kept {
    int64_t first;
    Rolled video;
  };

  void begin_step(int64_t step) override;
  MicroLoss micro_loss(size_t role, int64_t first, int64_t count) override;
  // Adds the mean and deviation of the critic's videos, and how many of the student's updates so far ended at each of
  // the sampler's steps.
  bool after_step(int64_t step, nlohmann::json& line) override;
  std::unique_ptr<Trained> critic(const Trained::How& usual) override;
  NamedTensors state() const override;
  void restore(NamedTensors state) override;

  // The step of the sampler after which all chunks are finished, the same for all samples and ranks.
  int64_t exit(const std::string& role, int64_t step) const;
  at::Tensor score_levels(const std::string& role, int64_t first, int64_t count, int64_t frames) const;
  LongRollouts::How rollouts_of(const std::string& role);
  Rolled rolled(const std::string& role, int64_t first, int64_t count);
  void draw_noise(Rolled& of, const std::string& role, int64_t first) const;
  Rolled for_critic(int64_t first, int64_t count);
  MicroLoss student_loss(const Rolled& in);

  LossInstance matching_;
  std::unique_ptr<Model> critic_;
  Objective critic_objective_;
  SelfForcing forcing_;
  std::map<std::string, LongRollouts> rollouts_by_;  // by role
  std::optional<Kept> kept_;                         // between the student's and the critic's turn
  std::vector<int64_t> exits_;                       // of the student's updates in the first `counted_` steps
  int64_t counted_ = 0;
};

}  // namespace kinora::core
