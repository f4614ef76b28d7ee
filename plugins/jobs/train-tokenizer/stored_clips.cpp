#include <ATen/ATen.h>

#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/loading/held_out.hpp"
#include "plugins/jobs/train-tokenizer/tokenizer_clips.hpp"

namespace kinora::core {
namespace {

// A random crop in time: its first frame depends only on (seed, n).
int64_t start_of(int64_t n, int64_t length, int64_t frames, uint64_t seed) {
  const double u = sample_uniform({1}, seed, n, "tokenizer.start").item<double>();
  return std::min<int64_t>(static_cast<int64_t>(u * static_cast<double>(length - frames + 1)),
                           length - frames);
}

class StoredClips final : public TokenizerClips {
 public:
  StoredClips(JobContext& context, const TrainTokenizerOptions& o)
      : frames_(o.frames),
        seed_(static_cast<uint64_t>(context.run().seed)),
        clips_(context, shards_of(context), {{"height", o.height}, {"width", o.width}, {"stride", o.every}},
               o.memory) {
    find(o.validation);
  }

  at::Tensor drawn(int64_t n, int64_t length) override {
    const int64_t at = shuffled(n, static_cast<int64_t>(usable_.size()), seed_);
    const at::Tensor frames = clips_.frames(usable_[static_cast<size_t>(at)]);
    return video_of(frames, start_of(n, frames.size(0), length, seed_), length);
  }
  size_t evaluated_size() const override { return which().size(); }
  at::Tensor evaluated(size_t i) override { return video_of(clips_.frames(which().at(i)), 0, frames_); }
  json summary() const override {
    return {{"clips", clips_.size()},
            {"used", usable_.size()},
            {"held_out", held_out_.size()},
            {"too_short", too_short_},
            {"failed", clips_.failed()}};
  }

 private:
  const std::vector<int64_t>& which() const { return held_out_.empty() ? usable_ : held_out_; }

  void find(double validation) {
    for (int64_t i = 0; i < clips_.size(); ++i) {
      const at::Tensor frames = clips_.try_frames(i);
      if (!frames.defined()) continue;
      if (frames.size(0) < frames_)
        ++too_short_;
      else
        (hash_share(clips_.key(i)) < validation ? held_out_ : usable_).push_back(i);
    }
    if (usable_.empty() && held_out_.empty()) throw clips_.none_usable(too_short_, clips_.failed(), frames_);
    if (usable_.empty() || (validation > 0 && held_out_.empty()))
      raise(KINORA_ERROR_INVALID, "validation = {} leaves {} of {} clips for training; choose another share",
            validation, usable_.size(), usable_.size() + held_out_.size());
  }

  int64_t frames_;
  uint64_t seed_;
  Clips clips_;
  std::vector<int64_t> usable_, held_out_;  // intact clips that are long enough
  int64_t too_short_ = 0;
};

}  // namespace

std::unique_ptr<TokenizerClips> stored_clips(JobContext& context, const TrainTokenizerOptions& options) {
  return std::make_unique<StoredClips>(context, options);
}

}  // namespace kinora::core
