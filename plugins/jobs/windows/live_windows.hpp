// The windows of a job whose input is a table of data: none is stored, each is decoded when training takes it.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include <ATen/core/Tensor.h>

#include "core/run/job.hpp"
#include "host/stages/one_stage.hpp"
#include "plugins/jobs/loading/samples_ahead.hpp"
#include "plugins/jobs/loading/transforms.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/windows/window_size.hpp"

namespace kinora::core {

// [owner-thread] A window is made also after the run was asked to stop: a trainer finishes its step, which needs it.
class LiveWindows {
 public:
  struct Window {
    std::string key;                     // "CLIP@FIRST", as in a latent cache
    std::function<at::Tensor()> frames;  // decodes them, uint8 [T, H, W, 3]; to be called within Use
    json facts;                          // of the clip; null: none
    std::string text;                    // its caption
    Sample clip;                         // as it is decoded
    int64_t first;                       // frame of the clip
    WindowSize size;
  };
  // Whether a clip with this key may be taken.
  using Accept = std::function<bool(const std::string& key)>;
  // Takes the window of a slot. It throws Error(KINORA_ERROR_DATA) if the window cannot be used.
  using Use = std::function<void(Window)>;

  // job: with a table of data, and the slot `transforms`. sizes: of windows, at least one; a transform may change
  // their height and width if there is one. every: one frame of that many is taken.
  LiveWindows(const JobView& job, std::vector<WindowSize> sizes, int64_t every);

  // Gives `use` the window of the sample that slot n takes, after the job's transforms; its first frame
  // depends only on the seed and n. A sample that is not used is replaced by another one of its set and
  // counted by its reason, unless it is not accepted. Throws Error(KINORA_ERROR_DATA) after many in a row, or
  // if more samples have failed than the job's table accepts. size: of the window, one of `sizes`, whatever
  // would suit its clip; shorter clips are replaced.
  void at(uint64_t slot, const Accept& accept, const Use& use, const std::optional<WindowSize>& size = {});
  // The size of slot n's window, from the stored facts of its clip: the window itself may be another's if the
  // clip cannot be decoded or is dropped.
  WindowSize size(uint64_t slot, const Accept& accept);
  DataOrder& order() { return order_; }
  // [any-thread] The samples that could not be used.
  LostSamples& lost() { return lost_; }
  // The slots that at() is asked for from now on, whose clips are read ahead; by default none.
  void follow(SlotTurns turns) { ahead_.follow(std::move(turns)); }
  // [any-thread]
  DataCounts counts() const { return ahead_.counts(); }
  // [any-thread] counts() and LostSamples::counts().
  json loading() const;

 private:
  struct Taken {
    int64_t frames;  // one of `every`
    size_t size;     // of sizes_
  };
  // A clip with what is known before it is decoded.
  struct KnownClip {
    Sample clip;
    Taken taken;
  };
  // Calls make(draw) for the sample of a slot, then for those that replace it, until it returns true.
  void find(uint64_t slot, const std::function<bool(const DataOrder::Draw&)>& make);
  // These return nothing, with the reason in unused_, if the clip is not used, and throw
  // Error(KINORA_ERROR_DATA) if it cannot be used. size: as of at().
  std::optional<KnownClip> known(const DataOrder::Draw& draw, uint64_t slot, const Accept& accept,
                                 const std::optional<WindowSize>& size);
  std::optional<Window> window(const DataOrder::Draw& draw, uint64_t slot, const Accept& accept,
                               const std::optional<WindowSize>& size);
  // Returns what a window takes of a clip with this shape.
  std::optional<Taken> taken(const std::string& key, const WindowSize& shape);
  std::optional<Sample> transformed(Transforms& by, Sample sample, uint64_t slot);
  bool is_accepted(const Accept& accept, const std::string& key);
  // Frames, height and width of a clip, the last two only if windows have several sizes: from its facts, or nothing if
  // they do not tell.
  std::optional<WindowSize> shape_by_facts(const json& facts) const;
  // The same of a clip that has been probed, or is read and probed now.
  WindowSize probed_shape(const DataOrder::Draw& draw, const std::function<Sample()>& read);
  // The clip with the tensor `frames` of the window that begins with this frame.
  Sample decoded(const KnownClip& known, int64_t first);

  uint64_t seed_;
  DataOrder order_;
  SamplesAhead ahead_;
  LostSamples lost_;
  CutOffs cut_offs_;
  Unused unused_;  // why the last clip is not used
  std::vector<WindowSize> sizes_;
  int64_t every_;
  std::vector<std::unique_ptr<OneStage>> read_;  // of each size
  OneStage probe_;
  Transforms before_, after_;                                          // decoding
  bool transforms_frames_;                                             // whether there are any after decoding
  std::map<std::tuple<size_t, size_t, uint64_t>, WindowSize> probed_;  // clips whose facts do not tell
};

}  // namespace kinora::core
