// The windows of an encode job whose input is a table of data: none is stored, each is decoded and encoded when
// training takes it.
#pragma once
#include <functional>
#include <optional>

#include "core/run/one_stage.hpp"
#include "core/torch/media/signals.hpp"
#include "plugins/jobs/loading/samples_ahead.hpp"
#include "plugins/jobs/training/generating/encoders.hpp"
#include "plugins/jobs/training/live/window_encoder.hpp"

namespace kinora::core {

// [owner-thread] A window is made also after the run was asked to stop: a trainer finishes its step, which needs it.
class LiveWindows {
 public:
  struct Window {
    std::string key;  // "CLIP@FIRST", as in a latent cache
    NamedTensors tensors;
  };
  // Whether a clip with this key may be taken.
  using Accept = std::function<bool(const std::string& key)>;

  // encode: the job.
  LiveWindows(const JobView& encode, at::Device device);

  // The window of the sample that slot n takes; its first frame depends only on the seed and n. A sample that
  // cannot be used (damaged, too short, without a signal) is replaced by another one of its set, with a
  // warning and counted; so is one that is not accepted, without. Throws Error(KINORA_ERROR_DATA) after many in
  // a row, or if the data have more of them than the encode job's table accepts.
  Window at(uint64_t slot, const Accept& accept);
  // The key of the clip that slot n takes unless it is replaced, without reading the clip.
  std::string key(uint64_t slot) { return order_.key(slot); }
  // The slots that at() is asked for from now on, whose clips are read ahead; by default none.
  void follow(const SlotTurns& turns) { ahead_.follow(turns); }
  const DataOrder& order() const { return order_; }
  // Samples that could not be used, each counted once.
  int64_t failed() const { return failed_.count(); }
  DataCounts counts() const { return ahead_.counts(); }
  // Frames a second of the frames of a window, from the facts of the last one; 24 / every if they do not say.
  double fps() const { return fps_; }

 private:
  // Nothing if the clip is not accepted. Throws Error(KINORA_ERROR_DATA) if it cannot be used.
  std::optional<Window> window(const DataOrder::Draw& draw, uint64_t slot, const Accept& accept);
  // The number of frames of the clip.
  int64_t length(const Sample& clip, const json& facts);
  at::Tensor frames(Sample clip, int64_t first);

  EncodeOptions options_;
  uint64_t seed_;
  DataOrder order_;
  SamplesAhead ahead_;
  FailedSamples failed_;
  OneStage read_, probe_;
  Signals signals_;
  WindowEncoder encoder_;
  TextEncoder text_;
  double fps_;
};

}  // namespace kinora::core
