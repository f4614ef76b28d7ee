// The windows of an encode job whose input is a table of data: none is stored, each is decoded and encoded when
// training takes it.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/run/one_stage.hpp"
#include "core/torch/media/signals.hpp"
#include "plugins/jobs/loading/data_order.hpp"
#include "plugins/jobs/training/generating/encoders.hpp"
#include "plugins/jobs/training/live/window_encoder.hpp"
#include "plugins/jobs/training/live/window_size.hpp"

namespace kinora::core {

// [owner-thread] A window is made also after the run was asked to stop: a trainer finishes its step, which needs it.
class LiveWindows {
 public:
  struct Window {
    std::string key;  // "CLIP@FIRST", as in a latent cache
    NamedTensors tensors;
    WindowSize size;
  };
  // Whether a clip with this key may be taken.
  using Accept = std::function<bool(const std::string& key)>;

  // encode: the job.
  LiveWindows(const JobView& encode, at::Device device);

  // The window of the sample that slot n takes; its first frame depends only on the seed and n. A sample that
  // cannot be used (damaged, too short, without a signal) is replaced by another one of its set, with a
  // warning and counted; so is one that is not accepted, without. Throws Error(KINORA_ERROR_DATA) after many in
  // a row.
  Window at(uint64_t slot, const Accept& accept);
  // The number of latent positions (frames x rows x columns) of slot n's window, from the facts of its clip: the
  // window itself may be another's if the clip cannot be decoded.
  int64_t positions(uint64_t slot, const Accept& accept);
  // The key of the clip that slot n takes unless it is replaced, without reading the clip.
  std::string key(uint64_t slot) { return order_.key(slot); }
  const DataOrder& order() const { return order_; }
  // Of a window of the first size, frames x height x width: [C, t, h, w], or [t, h, w] of codes.
  std::vector<int64_t> latent_shape() const { return encoder_.shape(sizes_[0]); }
  // Samples that could not be used, each counted once, and their names.
  int64_t failed() const { return static_cast<int64_t>(failed_.size()); }
  const std::set<std::string>& failed_samples() const { return failed_; }
  // Bytes of samples that were read since the last call.
  uint64_t take_bytes() { return std::exchange(bytes_, 0); }
  // Frames a second of the frames of a window, from the facts of the last one; 24 / every if they do not say.
  double fps() const { return fps_; }

 private:
  // A clip with what is known before it is decoded.
  struct Known {
    Sample clip;
    json facts;
    int64_t taken;  // frames: one of `every`
    size_t size;    // of sizes_
  };
  // Calls make(draw) for the sample of a slot, then for those that replace it, until it returns true.
  void find(uint64_t slot, const std::function<bool(const DataOrder::Draw&)>& make);
  Sample read(const DataOrder::Draw& draw);
  // Both return nothing if the clip is not accepted, and throw Error(KINORA_ERROR_DATA) if it cannot be used.
  std::optional<Known> known(const DataOrder::Draw& draw, const Accept& accept);
  std::optional<Window> window(const DataOrder::Draw& draw, uint64_t slot, const Accept& accept);
  // A clip's number of frames, one of `every`, and the size of its windows. Throws Error(KINORA_ERROR_DATA) for a clip
  // that is too short.
  std::pair<int64_t, size_t> size_for(const std::string& key, WindowSize shape) const;
  // Frames, height and width of a clip, the last two only if windows have several sizes: from its facts, or nothing if
  // they do not tell.
  std::optional<WindowSize> told_shape(const json& facts) const;
  // The same of a clip that has been probed, or is now.
  WindowSize probed_shape(const DataOrder::Draw& draw, const Sample& clip);
  at::Tensor frames(const Known& known, int64_t first);

  EncodeOptions options_;
  std::string job_;
  uint64_t seed_;
  DataOrder order_;
  std::vector<WindowSize> sizes_;
  std::vector<std::unique_ptr<OneStage>> read_;  // of each size
  OneStage probe_;
  Signals signals_;
  WindowEncoder encoder_;
  TextEncoder text_;
  std::map<std::tuple<size_t, size_t, uint64_t>, WindowSize> probed_;  // clips whose facts do not tell
  std::set<std::string> failed_;
  uint64_t bytes_ = 0;
  double fps_;
};

}  // namespace kinora::core
