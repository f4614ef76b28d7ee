// The windows of a job whose input is a table of data: none is stored, each is decoded when training takes it.
#pragma once
#include <functional>
#include <optional>
#include <set>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"
#include "core/run/one_stage.hpp"
#include "plugins/jobs/loading/data_order.hpp"
#include "plugins/jobs/loading/transforms.hpp"

namespace kinora::core {

// [owner-thread] A window is made also after the run was asked to stop: a trainer finishes its step, which needs it.
class LiveWindows {
 public:
  // Frames taken, one of `every`, and their size before transforms change it.
  struct Shape {
    int64_t frames, every, height, width;
  };
  struct Window {
    std::string key;    // "CLIP@FIRST", as in a latent cache
    at::Tensor frames;  // uint8 [T, H, W, 3]
    json facts;         // of the clip; null: none
    std::string text;   // its caption
  };
  // Whether a clip with this key may be taken.
  using Accept = std::function<bool(const std::string& key)>;
  // Takes the window of a slot. It throws Error(KINORA_ERROR_DATA) if the window cannot be used.
  using Use = std::function<void(Window)>;

  // job: with a table of data, and the slot `transforms`.
  LiveWindows(const JobView& job, const Shape& shape);

  // Gives `use` the window of the sample that slot n takes, after the job's transforms; its first frame depends
  // only on the seed and n. A sample that cannot be used (damaged, too short, dropped by a transform) is
  // replaced by another one of its set, with a warning and counted; so is one that is not accepted, without.
  // Throws Error(KINORA_ERROR_DATA) after many in a row.
  void at(uint64_t slot, const Accept& accept, const Use& use);
  DataOrder& order() { return order_; }
  // Samples that could not be used, each counted once.
  int64_t failed() const { return static_cast<int64_t>(failed_.size()); }

 private:
  // Nothing if the clip is not accepted. Throws Error(KINORA_ERROR_DATA) if it cannot be used.
  std::optional<Window> window(const DataOrder::Draw& draw, uint64_t slot, const Accept& accept);
  // The number of frames of the clip.
  int64_t length(const Sample& clip, const json& facts);
  // The clip with the tensor `frames` of the window that begins with this frame.
  Sample decoded(Sample clip, int64_t first);

  Shape shape_;
  std::string job_;
  uint64_t seed_;
  DataOrder order_;
  OneStage read_, probe_;
  Transforms before_, after_;  // decoding
  std::set<std::string> failed_;
};

}  // namespace kinora::core
