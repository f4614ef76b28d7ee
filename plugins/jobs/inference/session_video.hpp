// The two ways in which a session makes its video.
#pragma once
#include "core/torch/media/streaming.hpp"
#include "core/torch/network/instances.hpp"
#include "plugins/jobs/inference/next_token.hpp"
#include "plugins/jobs/inference/request_inputs.hpp"
#include "plugins/jobs/inference/session.hpp"

namespace kinora::core::inference {

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

 protected:
  Session& session_;
  Pipeline& pipeline_;
  const Request& request_;
  RequestInputs inputs_;
};

class Session::DenoisedVideo final : public Session::Video {
 public:
  explicit DenoisedVideo(Session& session);
  ~DenoisedVideo() override;
  std::optional<at::Tensor> next() override;

 private:
  void sample_chunk();
  // The conditions of the first `frames` latent frames.
  GuidedConditions prepared(int64_t frames, const FrameCondition* before);
  // `noise` sampled from the first level on, with the frames `before` given.
  at::Tensor sampled(const at::Tensor& noise, const FrameCondition* before);
  // The denoiser that the sampler calls, in the sampler's way of mixing.
  at::Tensor estimate(GuidedConditions& video, const at::Tensor& x, const at::Tensor& sigma,
                      const FrameCondition* before);
  void look(int64_t step, const at::Tensor& x0);
  // Frames of the finished latent frames that are not decoded yet.
  at::Tensor decode_new();

  std::unique_ptr<SamplerInstance> sampler_;
  int64_t first_ = 0, steps_ = 0;  // the sampler's first level, and its number of steps
  std::optional<ChunkLoop> loop_;
  std::unique_ptr<Tokenizer::Stream> stream_;  // null: the video is decoded as a whole
  int64_t decoded_ = 0;                        // latent frames
  int64_t chunk_ = 0;                          // number of the next chunk
};

class Session::DrawnVideo final : public Session::Video {
 public:
  explicit DrawnVideo(Session& session);
  ~DrawnVideo() override;
  std::optional<at::Tensor> next() override;

 private:
  uint64_t number_ = 0;  // of its session in the pipeline's cache
  std::unique_ptr<NextToken> codes_;
};

}  // namespace kinora::core::inference
