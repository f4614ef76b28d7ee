#include <mutex>

#include "core/torch/media/streaming.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/train-tokenizer/tokenizer_clips.hpp"
#include "plugins/jobs/windows/live_split.hpp"
#include "plugins/jobs/windows/live_windows.hpp"
#include "plugins/jobs/windows/made_ahead.hpp"

namespace kinora::core {
namespace {

class LiveClips final : public TokenizerClips {
 public:
  LiveClips(const JobView& job, const TrainTokenizerOptions& o, size_t most)
      : frames_(o.frames), split_{o.validation}, ahead_([this, job, o, most] {
          return open(job, o, most);
        }) {}

  at::Tensor drawn(int64_t n, int64_t length) override {
    return video_of(ahead_.get({static_cast<uint64_t>(n), false}), 0, length);
  }
  void prepare(int64_t first, int64_t count, int64_t stride) override {
    {
      const std::scoped_lock lock(mutex_);
      turns_ = {.first = static_cast<uint64_t>(first),
                .count = static_cast<uint64_t>(count),
                .of = static_cast<uint64_t>(stride)};
    }
    std::vector<Wanted> wanted;
    for (int64_t n = first; n < first + count; ++n) wanted.push_back({static_cast<uint64_t>(n), false});
    ahead_.prepare(wanted);
  }
  std::optional<double> take_wait() override { return ahead_.take_wait(); }
  size_t evaluated_size() const override { return evaluated_.size(); }
  at::Tensor evaluated(size_t i) override {
    return video_of(ahead_.get({evaluated_.at(i), true}), 0, frames_);
  }
  LostSamples* lost() override { return &windows_->lost(); }
  json loading() const override { return windows_->loading(); }
  json summary() const override {
    json out = windows_->lost().counts();
    out.update({{"clips", pass_},
                {"held_out", split_.held_out > 0 ? evaluated_.size() : 0},
                {"left_out", windows_->counts().left_out},
                {"loading", loading()}});
    return out;
  }

 private:
  struct Wanted {
    uint64_t slot;
    bool is_evaluated;
    auto operator<=>(const Wanted&) const = default;
  };
  using Ahead = MadeAhead<Wanted, at::Tensor>;  // frames uint8 [T, H, W, 3]

  // Called in the thread of ahead_.
  Ahead::Make open(const JobView& job, const TrainTokenizerOptions& o, size_t most) {
    use_threads(o.threads);
    const auto windows = windows_ =
        std::make_shared<LiveWindows>(job, std::vector{WindowSize{o.frames, o.height, o.width}}, o.every);
    pass_ = windows->order().pass();
    evaluated_ = split_.validation(windows->order(), most);
    return [this, windows](const Wanted& wanted) {
      windows->follow(wanted.is_evaluated ? SlotTurns() : turns());
      at::Tensor frames;
      windows->at(
          wanted.slot, [&](const std::string& key) { return split_.accepts(wanted.is_evaluated, key); },
          [&](LiveWindows::Window window) { frames = window.frames(); });
      return frames;
    };
  }

  SlotTurns turns() const {
    const std::scoped_lock lock(mutex_);
    return turns_;
  }

  int64_t frames_;
  LiveSplit split_;
  std::vector<uint64_t> evaluated_;  // slots of the evaluated clips, each another clip
  uint64_t pass_ = 0;
  std::shared_ptr<LiveWindows> windows_;  // its any-thread functions only
  mutable std::mutex mutex_;              // of turns_
  SlotTurns turns_;                       // of the training
  Ahead ahead_;                           // last: its thread uses the others
};

}  // namespace

std::unique_ptr<TokenizerClips> live_clips(const JobView& job, const TrainTokenizerOptions& options,
                                           size_t most) {
  return std::make_unique<LiveClips>(job, options, most);
}

}  // namespace kinora::core
