// Rollouts of long videos window by window: streaming long tuning (LongLive 1, arXiv 2509.22622). Each
// sample of the batch has a video of several windows. In a turn, a step in which the rollouts' loss is due, the student
// makes the next window of each video after the frames before it, whose keys and values are constants. After the last
// window new videos begin, with the texts of other samples. Between two turns a video has its latents and, on the
// cache, its keys and values. These are always those of the student's current weights: when the weights change, the
// clean passes are made again. So a checkpoint needs the latents alone.
//
// B samples, C channels, T latent frames of a sample and of a first window, H rows, W columns.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/torch/ranks/parallelism.hpp"
#include "plugins/jobs/distill/self_forcing.hpp"

namespace kinora::core {

class LongRollouts {
 public:
  struct How {
    std::string role{};     // its random numbers have it in their keys
    int64_t windows = 1;    // of a video; 1: a turn makes a whole one
    int64_t overlap = 0;    // latent frames by which the second window and later ones are shorter
    int64_t every = 1;      // steps from turn to turn, of which the last one is the turn
    int64_t batch = 1;      // samples of a step, over all ranks
    uint64_t session = 1;   // of the cache, the first of those of this role
    uint64_t sessions = 1;  // from a sample's session to the next one's
    EarlierKeysLink* earlier = nullptr;  // for forwards with gradients
  };
  // forcing outlives this object.
  LongRollouts(SelfForcing& forcing, How how) : forcing_(forcing), how_(std::move(how)) {}

  // The window of a turn, from 0 on. step: steps done before it.
  int64_t window(int64_t step) const { return turn(step) % how_.windows; }
  // Its latent frames.
  int64_t frames(int64_t step, int64_t T) const { return window(step) == 0 ? T : T - how_.overlap; }
  // The sample for which the video began that sample `first` of this step continues: it has its text and its noise.
  int64_t origin(int64_t first, int64_t step) const;
  struct Made {
    SelfForced window;
    at::Tensor scored;  // [B, C, T, H, W]: the video's last T frames, float64 on the CPU
  };
  // The next window of the videos of the samples [first, first + B). conditions: those of the samples from origin() on.
  // shape: B, C, T, H, W. exits: of the window's chunks. Throws Error(KINORA_ERROR_UNSUPPORTED) for conditions with
  // frames, if the video has several windows.
  Made next(const NamedTensors& conditions, const std::vector<int64_t>& shape,
            const std::vector<int64_t>& exits, int64_t first, int64_t step);
  // The student's weights have changed.
  void forget();
  // The latents [batch, C, frames, H, W] of the videos that are unfinished after so many steps, the same on every rank;
  // undefined if none is. They have the precision in which the student reads them. Collective over the ranks of other
  // samples.
  at::Tensor state(int64_t steps, const Parallelism&) const;
  void restore(at::Tensor latents) { restored_ = std::move(latents); }

 private:
  int64_t turn(int64_t step) const { return (step + 1) / how_.every - 1; }
  // Latent frames before a window; of the whole video, for the window after the last.
  int64_t begin(int64_t window, int64_t T) const {
    return window == 0 ? 0 : T + (window - 1) * (T - how_.overlap);
  }
  SelfForcing::Video& video(const std::vector<int64_t>& shape, int64_t first, int64_t step);

  SelfForcing& forcing_;
  const How how_;
  std::map<int64_t, SelfForcing::Video> videos_;  // by the first sample's place in its step
  at::Tensor restored_;                           // latents of the videos that no turn has continued yet
};

}  // namespace kinora::core
