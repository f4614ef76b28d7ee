// The drift of a long video (kernels/cpu/drift.hpp), measured while it is made.
#pragma once
#include <memory>
#include <set>
#include <utility>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "kernels/cpu/drift.hpp"
#include "plugins/jobs/inference/pipeline.hpp"
#include "plugins/jobs/media/decode_thread.hpp"

namespace kinora::core {

// [owner-thread] The frames are measured on a thread of their own, while the next ones are made.
class MeasuredDrift {
 public:
  static constexpr int64_t kLeast = 3;  // seconds; of a shorter video nothing is told

  // chunk, first_chunk: frames; 0: no borders. cuts: the frames that begin with a cut, which are no borders.
  MeasuredDrift(double fps, int64_t chunk, int64_t first_chunk, std::set<int64_t> cuts)
      : has_borders_(chunk > 0),
        cuts_(std::move(cuts)),
        video_(fps, chunk, first_chunk),
        thread_([this](const at::Tensor& frames) { measure(frames); }) {}

  // uint8 [T, H, W, 3].
  void add(const at::Tensor& frames) { thread_.push(frames); }

  // The numbers of kernels/cpu/drift.hpp by name, each a list with an element a second, against the first second;
  // null for a video of less than kLeast whole seconds. latent: as decoded; one with channels, [1, C, t, h, w], adds
  // latent_mean and latent_spread, the change of a channel's mean and standard deviation, if each second has a
  // latent frame. time: frames of a latent frame. Call once, after the last frame.
  nlohmann::json finish(const at::Tensor& latent, int64_t time);

 private:
  void measure(const at::Tensor& frames);
  void add_latent(nlohmann::json& to, const at::Tensor& latent, int64_t time) const;

  const bool has_borders_;
  const std::set<int64_t> cuts_;
  drift::Video video_;
  at::Tensor before_;                           // the last frame
  int64_t measured_ = 0;                        // frames
  inference::DecodeThread<at::Tensor> thread_;  // last, because it uses the others
};

// For the frames of this request's video; null at less than a frame a second.
std::unique_ptr<MeasuredDrift> drift_of(inference::Pipeline&, const Request&);

}  // namespace kinora::core
