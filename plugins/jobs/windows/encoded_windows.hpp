// The windows of an encode job whose input is a table of data, encoded as in its cache.
#pragma once
#include "core/torch/media/signals.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/windows/kept_latents.hpp"
#include "plugins/jobs/windows/live_windows.hpp"
#include "plugins/jobs/windows/model_outline.hpp"
#include "plugins/jobs/windows/window_encoder.hpp"

namespace kinora::core {

// [owner-thread] A window is made also after the run was asked to stop: a trainer finishes its step, which needs it.
class EncodedWindows {
 public:
  struct Window {
    std::string key;  // "CLIP@FIRST", as in a latent cache
    NamedTensors tensors;
    WindowSize size;
  };

  // encode: the job.
  EncodedWindows(const JobView& encode, at::Device device);

  // The window that LiveWindows gives for the slot. A clip without a signal cannot be used either. has_size: of the
  // size that latent_size() promises, also if another clip takes the place of the slot's.
  Window at(uint64_t slot, const LiveWindows::Accept& accept, bool has_size = false);
  // The size of the latent of a window of the size that LiveWindows says.
  LatentSize latent_size(uint64_t slot, const LiveWindows::Accept& accept);
  // The shape of a window of the first size, frames x height x width: [C, t, h, w], or [t, h, w] of codes.
  std::vector<int64_t> latent_shape() const { return encoder_.shape(window_sizes(options_)[0]); }
  DataOrder& order() { return windows_.order(); }
  // [any-thread] As those of LiveWindows; loading() also has "latent_hits".
  LostSamples& lost() { return windows_.lost(); }
  DataCounts counts() const { return windows_.counts(); }
  json loading() const;
  // [any-thread] Windows that the latent cache had.
  uint64_t latent_hits() const { return kept_ ? kept_->hits() : 0; }
  // Does as LiveWindows::follow().
  void follow(SlotTurns turns) { windows_.follow(std::move(turns)); }
  // The embedding of a text, as windows have theirs.
  at::Tensor text(const std::string& of) { return text_(of); }
  // Frames a second of the frames of a window, from the facts of the last one or its file; 24 / every of pictures.
  double fps() const { return fps_; }

 private:
  NamedTensors encoded(const LiveWindows::Window& window);

  EncodeOptions options_;
  LiveWindows windows_;
  Signals signals_;
  WindowEncoder encoder_;
  std::unique_ptr<KeptLatents> kept_;  // null: none
  TextEncoder text_;
  OneStage probe_;
  double fps_;
};

}  // namespace kinora::core
