// The two ways in which a session makes its video.
#pragma once
#include <c10/core/Stream.h>

#include "core/torch/media/streaming.hpp"
#include "core/torch/network/instances.hpp"
#include "plugins/jobs/inference/next_token.hpp"
#include "plugins/jobs/inference/request_inputs.hpp"
#include "plugins/jobs/inference/rollout.hpp"
#include "plugins/jobs/inference/session.hpp"

namespace kinora::core::inference {

// A session of the pipeline's cache for one video, which frees what it stored.
class KeptVideo {
 public:
  // The caller has a turn; the destructor takes one.
  explicit KeptVideo(Pipeline& pipeline) : number(pipeline.next_number()), pipeline_(pipeline) {}
  KeptVideo(const KeptVideo&) = delete;
  KeptVideo& operator=(const KeptVideo&) = delete;
  ~KeptVideo();
  // Notes what the cache has of the video, and frees it. The caller has a turn.
  void free(Session::Made& made);
  const uint64_t number;

 private:
  Pipeline& pipeline_;
};

class Session::Video {
 public:
  explicit Video(Session& session)
      : session_(session),
        pipeline_(session.pipeline_),
        request_(session.request_),
        inputs_(pipeline_, request_, session.run_) {}
  virtual ~Video() = default;
  // Does as Session::next_chunk().
  virtual std::optional<at::Tensor> next() = 0;
  // Does as Session::make_rest(), if gives_chunks().
  virtual void make_rest(const Take& /*take*/) {}
  // Both are for a video that is made chunk by chunk. The latent frames of the finished chunks:
  virtual at::Tensor finished() const { return {}; }
  // Begins again with this many finished chunks, whose latent frames begin `latent`, as if they had just been made.
  // Returns the number of frames that next() gave for them.
  virtual int64_t replay(const at::Tensor& /*latent*/, int64_t /*chunks*/) { return 0; }
  virtual bool gives_chunks() const { return false; }
  int64_t frames() const { return inputs_.pixel_frames(); }

 protected:
  Session& session_;
  Pipeline& pipeline_;
  const Request& request_;
  RequestInputs inputs_;
  std::optional<KeptVideo> kept_;  // of a pipeline with a cache
};

class Session::DenoisedVideo final : public Session::Video {
 public:
  explicit DenoisedVideo(Session& session);
  ~DenoisedVideo() override;
  std::optional<at::Tensor> next() override;
  void make_rest(const Take& take) override;
  at::Tensor finished() const override { return loop_->latent(); }
  int64_t replay(const at::Tensor& latent, int64_t chunks) override;
  bool gives_chunks() const override { return stream_ != nullptr; }

 private:
  void begin(const NoiseOf& noise, std::optional<FrameCondition> given);
  void open_stream();
  void sample_chunk();
  // begins: what control_.begin_chunk() returned.
  void add_chunk(const std::optional<Shot>& begins, const Rollout::Sample& sample);
  void begin_again();
  const FrameOptions& rule() const { return pipeline_.spec().rule; }
  bool has_shots() const { return kept_ && !inputs_.shots().empty(); }
  // The prompt of a shot that begins with this chunk, and what becomes of the keys and values before it.
  void begin_shot(int64_t chunk);
  // Drops the tokens from this INDEX on, and all pins.
  void forget(int64_t tokens);
  // All that the chunk sees, by the prompt of now.
  void read_again(int64_t chunk);
  void free_cache();
  // The text of a chunk in which one prompt goes over to the next.
  void blend(int64_t chunk);
  // Keeps the first chunk of the shot that the chunk is in, and lets that of the shot before it go.
  void pin_shot(int64_t chunk);
  GuidedConditions prepared(const Rollout::Piece& piece);
  // The piece sampled from the first level on.
  at::Tensor sampled(const Rollout::Piece& piece);
  // The clean pass over finished frames.
  void read(int64_t first, const FrameCondition& finished);
  Rollout::Read reader() {
    return [this](int64_t first, const FrameCondition& finished) { read(first, finished); };
  }
  // The denoiser that the sampler calls, in the sampler's way of mixing.
  at::Tensor estimate(GuidedConditions& video, const at::Tensor& x, const at::Tensor& sigma,
                      const FrameCondition* before);
  void look(int64_t step, const at::Tensor& x0);
  // Finished latent frames as the decoder reads them, float32.
  at::Tensor denormalised(int64_t first) const;
  void note_made();
  // The finished latent frames that are not decoded yet, as the decoder reads them.
  at::Tensor take_new();
  // Frames of these; of a video that is decoded as a whole, all.
  at::Tensor decode_new();
  // Gives the frames of these latent frames, the next of the stream, one latent frame's after the other; none on all
  // ranks of the video but the first.
  void decode_each(const at::Tensor& latent, const Take& take,
                   const std::function<bool()>& is_stopped = nullptr);
  // The same, together; undefined if there are none.
  // is_stopped: asked before each; null: never.
  at::Tensor decode(const at::Tensor& latent, const std::function<bool()>& is_stopped = nullptr);

  std::unique_ptr<SamplerInstance> sampler_;
  int64_t first_ = 0, steps_ = 0;  // the sampler's first level, and its number of steps
  std::optional<Rollout> loop_;
  std::unique_ptr<Tokenizer::Stream> stream_;  // null: the video is decoded as a whole, by all ranks together
  // All that stream_ decodes, on whatever thread: what it keeps is of one CUDA stream's memory.
  std::optional<c10::Stream> cuda_;
  int64_t decoded_ = 0;       // latent frames that take_new() returned
  int64_t tokens_ = 0;        // of a latent frame, in the cache; 0: none was read
  std::set<int64_t> pinned_;  // cuts, by their first chunk
};

class Session::DrawnVideo final : public Session::Video {
 public:
  explicit DrawnVideo(Session& session);
  std::optional<at::Tensor> next() override;

 private:
  std::unique_ptr<NextToken> codes_;
};

}  // namespace kinora::core::inference
