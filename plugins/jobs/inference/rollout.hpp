// The loop over the chunks of a video: each is sampled from noise of its own, after the chunks before it (LongLive
// 2.0). A model that keeps keys and values reads a finished chunk once, and then only the chunk that it makes; any
// other computes all frames so far in each of its calls.
//
// C channels, T latent frames, H rows, W columns.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "plugins/jobs/inference/frames.hpp"

namespace kinora::core {

// Noise of the latent frames [first, first + count), float64 [1, C, count, H, W].
using NoiseOf = std::function<at::Tensor(int64_t first, int64_t count)>;
// Takes the noise from that of a whole video, [1, C, T, H, W].
NoiseOf noise_of(at::Tensor video);
// A function of (seed, video, frame, element): equal however many frames a video has and a call makes. shape: C, H, W.
NoiseOf noise_by_frames(std::vector<int64_t> shape, uint64_t seed, int64_t video);

struct RolloutPlan {
  int64_t frames = 0;        // T
  Chunks chunks{.each = 0};  // each = 0: all frames are made at once
  uint32_t mix = 0;
  double sigma = 0;    // noise level at which the model reads finished frames
  bool keeps = false;  // the model keeps keys and values
  // Type of finished latents. A model of float32, or of fewer bits, reads them in float32 at most.
  at::ScalarType stored = at::kDouble;
};
RolloutPlan rollout_plan(const FrameOptions&, const LossInstance&, double condition_sigma, int64_t frames);

// Memory: the latents of known frames, once, in a tensor of the whole video whose pages the system gives when they are
// written; they are what the result, a rewind and a chunk that is read again need. And the noise of one piece.
class Rollout {
 public:
  // The model's part in a chunk: latent frames [first, first + T) from noise [1, C, T, H, W], of which
  // the first ones may be given. The first `before` are earlier chunks; a sampler that does not see them draws
  // for the chunk alone, as on a cache.
  struct Piece {
    int64_t first = 0;
    at::Tensor noise;
    const FrameCondition* given = nullptr;
    int64_t before = 0;
    int64_t frames() const { return noise.size(2); }
  };
  using Sample = std::function<at::Tensor(const Piece&)>;
  // The clean pass: the model reads finished frames, from the latent frame `first` on.
  using Read = std::function<void(int64_t first, const FrameCondition& finished)>;

  // The given frames begin the video and stay as they are.
  Rollout(const RolloutPlan&, NoiseOf noise, std::optional<FrameCondition> given);
  // Makes the next chunk. A model that keeps keys and values first reads the finished chunks that it has not read yet.
  void next(const Sample& sample, const Read& read = nullptr);
  bool done() const { return finished_ == plan_.frames; }
  int64_t finished() const { return finished_; }  // latent frames that next() has finished
  // Finished frames from the latent frame `first` on, [1, C, finished() - first, H, W], of type `stored`: a view, whose
  // values stay.
  at::Tensor latent(int64_t first = 0) const { return known(first, finished_); }
  // Number of chunks that are not finished.
  int64_t chunks_left() const;
  // Forgets the latent frames from `frames` on, which is the end of a chunk; the model reads the others again.
  void rewind(int64_t frames);
  // Number of latent frames that are given or finished.
  int64_t known() const { return known_; }
  // The model reads the finished chunks now that it has not read yet: before its prompt changes.
  void read_finished(const Read& read) { read_chunks(plan_.chunks.of(read_), next_chunk(), read); }
  // It reads these chunks again, up to the next one.
  void read_chunks(int64_t first, int64_t end, const Read& read);
  int64_t next_chunk() const { return has_chunks() ? plan_.chunks.of(known_) : 0; }

 private:
  bool has_chunks() const { return plan_.chunks.each > 0; }
  // The end of the chunk that has this frame, wherever the given frames end.
  int64_t end_after(int64_t frames) const;
  // Finished and given frames [first, end), a view.
  at::Tensor known(int64_t first, int64_t end) const { return latents_.narrow(2, first, end - first); }
  // Makes these the known frames from `known_` on.
  void store(const at::Tensor& frames);

  const RolloutPlan plan_;
  const NoiseOf noise_;
  const std::optional<FrameCondition> given_;
  at::Tensor latents_;  // [1, C, T, H, W], of which the known frames are written
  int64_t known_ = 0, finished_ = 0, read_ = 0;
};

// The conditions of a piece of a video: tensors with frames are cut, and the mask is `given`'s.
NamedTensors of_piece(NamedTensors conditions, const Rollout::Piece& piece);

}  // namespace kinora::core
