// Self-forcing (Huang et al. 2025, arXiv 2506.08009, Algorithm 1) in two parts: a rollout of a few-step model without
// gradients on its cache, and one two-stream forward that has the rollout's gradients.
//
// Each chunk is denoised along a list of levels up to its exit step, whose estimate of the clean sample is the chunk;
// between two steps fresh noise is mixed in, or a sampler that draws none steps on (LongLive 2.0: UniPC).
// Later chunks read it from the cache, without gradients. So the derivative of each chunk is that of one
// forward, at its exit step, with earlier keys and values as constants. A teacher-forcing forward computes
// all of them at once: its clean stream is the generated video with detached keys and values
// (detach_clean_link.hpp), and its noisy stream is what each chunk's exit step read, at the chunk's own level.
//
// B samples, C channels, T latent frames, H rows, W columns, N levels.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/torch/network/cache_instance.hpp"
#include "core/torch/network/model.hpp"
#include "plugins/jobs/distill/earlier_keys_link.hpp"
#include "plugins/jobs/inference/guidance.hpp"
#include "plugins/jobs/inference/rollout.hpp"
#include "plugins/jobs/training/objective.hpp"

namespace kinora::core {

// The generated video and what its exit steps read, float64 on the CPU.
struct SelfForced {
  at::Tensor x;       // [B, C, T, H, W]: the estimate of each chunk's exit step
  at::Tensor noisy;   // [B, C, T, H, W]: the input of each chunk's exit step
  at::Tensor levels;  // [B, T]: its level
};

// The network's estimates of the clean sample, float64 [B, C, T, H, W], with their graph: `noisy` [B, C, T, H, W] at
// `levels` [B, T], each chunk after the clean ones of batch["latent"]. The chain has the rule of two streams. Or, if
// objective and chain are of one stream, all of `noisy` at `levels` [B] at once.
at::Tensor noisy_estimate(Model& network, const Objective& objective, const NamedTensors& batch,
                          const at::Tensor& noisy, const at::Tensor& levels);

class SelfForcing {
 public:
  struct How {
    FrameOptions rule{};           // with teacher_forcing
    std::vector<double> levels{};  // N of rectified flow, descending
    // Steps through these levels with one denoiser call at each; null: fresh noise after each estimate.
    const SamplerInstance* sampler = nullptr;
    double condition_sigma = 0;  // of finished frames, if the loss has no level 0
    at::ScalarType stream = at::kFloat;
    uint64_t seed = 0;
    at::Device device = at::kCPU;
    std::set<std::string> signals{};  // inputs of the model besides its manifest's
  };
  // The chain of the student, or of a teacher, has a link of this cache for its rollouts (rollout_cache_link.hpp). All
  // arguments outlive this object. Throws Error(KINORA_ERROR_INVALID) without teacher forcing, or for a loss that does
  // not blend.
  SelfForcing(Model& student, CacheInstance& cache, const ComponentSpec& model, const LossInstance& loss,
              How how);

  // [B, C, count, H, W] for the step that it begins.
  using NoiseOfStep = std::function<at::Tensor(int64_t first, int64_t count, size_t step)>;
  // A video in the making. Its frames are on the CPU, and its keys and values in a session of the cache, until its end.
  struct Video {
    Rollout loop;
    NoiseOfStep noise;
    uint64_t session;
  };
  // shape: B, C, T, H, W of the whole video. known: its first frames, [B, C, K, H, W] in whole chunks, which were made
  // before; undefined: none. session: from 1 on, of no other video. All noise is a function of (seed, sample, key,
  // frame, step, element). This object must outlive the video.
  Video begin(const std::vector<int64_t>& shape, int64_t first_sample, const std::string& key,
              uint64_t session = 1, const at::Tensor& known = {}) const;
  // The next `frames` frames, whole chunks unless the video ends there. conditions: the model's inputs besides the
  // latent, [B, ...]. exits: the step of each of these chunks after which it is finished, from 0 to N - 1. earlier: a
  // link of the student's chain, which then has the keys and values of earlier frames for a forward with gradients. The
  // chain has the rule of two streams from these frames on, and begins its pass of before again.
  SelfForced next(Video& video, int64_t frames, const NamedTensors& conditions,
                  const std::vector<int64_t>& exits, EarlierKeysLink* earlier = nullptr);
  // To be called for an unfinished video when the student's weights have changed: the next call of next() computes its
  // keys and values again.
  void forget(Video& video);
  // A whole video.
  SelfForced roll_out(const NamedTensors& conditions, const std::vector<int64_t>& shape,
                      const std::vector<int64_t>& exits, int64_t first_sample, const std::string& key) {
    Video video = begin(shape, first_sample, key);
    return next(video, shape[2], conditions, exits);
  }
  // The samples that a guided network makes of noise by this many Euler steps between two levels: at each level, and at
  // the end the video, [N + 1, B, C, T, H, W]. Otherwise like roll_out(), with its first noise.
  at::Tensor trajectory(const NamedTensors& with, const NamedTensors& none, double guidance, int64_t steps,
                        const std::vector<int64_t>& shape, int64_t first_sample, const std::string& key);
  int64_t chunks(int64_t frames) const { return how_.rule.chunks().of(frames - 1) + 1; }
  int64_t steps() const { return static_cast<int64_t>(how_.levels.size()); }
  const std::vector<double>& levels() const { return how_.levels; }
  at::ScalarType stream() const { return how_.stream; }

 private:
  // A video's conditions with and without text, and how it is guided away from the latter.
  struct Guided {
    const NamedTensors &with, &none;
    double guidance;
  };
  NoiseOfStep noise_of_step(const std::vector<int64_t>& shape, int64_t first_sample,
                            const std::string& key) const;
  GuidedConditions prepared(const Guided& conditions, const Rollout::Piece& piece, uint64_t session) const;
  // The next frames of a video, [B, C, frames, H, W], each chunk by `sample`, from the noise of step 0.
  at::Tensor make(const Guided& conditions, Video& video, int64_t frames,
                  const std::function<at::Tensor(GuidedConditions&, const Rollout::Piece&)>& sample);

  Model& student_;
  CacheInstance& cache_;
  const LossInstance& loss_;
  const How how_;
  Experts experts_;
  GuidedModel denoiser_;
};

}  // namespace kinora::core
