// The windows of an encode job whose input is a table of data, encoded as in its cache.
#pragma once
#include "core/torch/media/signals.hpp"
#include "plugins/jobs/training/generating/encoders.hpp"
#include "plugins/jobs/training/live/live_windows.hpp"
#include "plugins/jobs/training/live/window_encoder.hpp"

namespace kinora::core {

// [owner-thread] A window is made also after the run was asked to stop: a trainer finishes its step, which needs it.
class EncodedWindows {
 public:
  struct Window {
    std::string key;  // "CLIP@FIRST", as in a latent cache
    NamedTensors tensors;
  };

  // encode: the job.
  EncodedWindows(const JobView& encode, at::Device device);

  // The window that LiveWindows gives for the slot. A clip without a signal cannot be used either.
  Window at(uint64_t slot, const LiveWindows::Accept& accept);
  DataOrder& order() { return windows_.order(); }
  int64_t failed() const { return windows_.failed(); }
  // Frames a second of the frames of a window, from the facts of the last one; 24 / every if they do not say.
  double fps() const { return fps_; }

 private:
  EncodeOptions options_;
  LiveWindows windows_;
  Signals signals_;
  WindowEncoder encoder_;
  TextEncoder text_;
  double fps_;
};

}  // namespace kinora::core
