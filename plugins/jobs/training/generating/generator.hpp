// Everything that a generate job holds open (model, tokenizer, text encoder, sampler) and the making of one
// video: from noise by a denoiser and a sampler, or code by code by a model that predicts codes.
#pragma once
#include <memory>
#include <optional>

#include "core/torch/context/cache_instance.hpp"
#include "core/torch/context/parallelism.hpp"
#include "core/torch/media/latents.hpp"
#include "plugins/jobs/training/generating/encoders.hpp"
#include "plugins/jobs/training/generating/frames.hpp"
#include "plugins/jobs/training/generating/given_files.hpp"
#include "plugins/jobs/training/generating/guidance.hpp"
#include "plugins/jobs/training/generating/next_token.hpp"
#include "plugins/jobs/training/generating/parts.hpp"
#include "plugins/jobs/training/generating/wishes.hpp"
#include "plugins/jobs/training/options/generating.hpp"

namespace kinora::core {

class Generator {
 public:
  // Opens and loads everything. Throws Error that names the faulty option of the job.
  Generator(JobContext& context, const GenerateOptions& options);

  struct Made {
    at::Tensor latent;  // for the tokenizer to decode: [1, C, t, h, w], or int64 codes [1, t, h, w]
    at::Tensor frames;  // uint8 [T, H, W, 3]; only on the first of the ranks that work on the video
    int64_t nfe = 0, model_calls = 0, steps = 0;  // nfe: denoiser calls, or drawn codes
    int64_t cache_bytes = 0, cache_tokens = 0;    // of the cache of keys and values, while decoding codes
  };
  // preview (may be null): called after every preview_every steps with the forming first frame, uint8 [1, H,
  // W, 3].
  // Called on every rank that works on the video; only the first receives the frames.
  using Preview = std::function<void(int64_t step, const at::Tensor& frame)>;
  Made make(const Wish& wish, Progress& progress, const Preview& preview);
  at::Device device() const { return device_; }
  const Parallelism& parallel() const { return parallel_; }
  // Frames per second of its video: the job's, else that of training, else that of the video it is made from.
  double fps(const Wish& wish);
  // Whether the model predicts codes; and the number of codes in a video.
  bool of_codes() const { return cache_ != nullptr; }
  // Everything that decides the result, by its slot; model_2: the second expert.
  std::map<std::string, Part> parts() const;
  bool reads_text() const { return text_ != nullptr; }
  int64_t tokens() const { return of_codes() ? next_token_->tokens() : 0; }

 private:
  // The denoiser, and the guidance that calls it.
  struct Denoising {
    Denoising(JobContext&, Experts&, const ComponentSpec& model, const Options& its, at::ScalarType stream,
              at::Device device);
    LossInstance loss;
    SamplerInstance sampler;
    GuidedModel guided;
  };
  void open_denoising();
  void open_next_token();
  Made decoded(const Wish& wish, Progress& progress);
  Made denoised(const Wish& wish, Progress& progress, const Preview& preview);

  LatentFacts read_facts() const;
  void open_experts();
  void load_model();
  // uint8 [T, H, W, 3] from latents or codes, both on the CPU; only on the first of the ranks that work on
  // the video.
  at::Tensor decode(const at::Tensor& latent);
  bool takes(const std::string& input) const;
  std::unique_ptr<CacheInstance> open_cache();
  std::vector<const kinora_link*> links() const;
  std::vector<int64_t> latent_shape();
  Guidance guidance(double scale) const;
  // Frames per second that the job or training says; 0: neither.
  double known_rate() const;
  int64_t frames() const;  // of a video
  // uint8 [T, H, W, 3] -> normalised latents [1, C, t, h, w], or codes [1, t, h, w].
  at::Tensor encoded(const at::Tensor& frames);
  // The frames of a video that its continuation begins with; undefined: none.
  at::Tensor continued(const std::filesystem::path& video);
  at::Tensor first_frame_of(const std::filesystem::path& video);
  // encoded() of the frames that the result begins with; undefined: none.
  at::Tensor begins_with(const Wish& wish);
  void give_text(const Wish& wish, Conditions& with, Conditions& none);
  // Adds the picture's embeddings to both predictions.
  void give_image(const Wish& wish, Conditions& with, Conditions& none);
  // Adds the signals to both predictions. Throws Error(KINORA_ERROR_INVALID) for one that the model does not
  // take.
  void give_signals(const Wish& wish, Conditions& with, Conditions& none);
  std::optional<FrameCondition> given_frames(const Wish& wish);
  ToldBy told() const;
  void give_channels(const std::optional<FrameCondition>& given, const Wish& wish, Conditions& both);
  // Frames of a wish with these conditions, starting from `start` at the sampler's level `first`; adds to
  // `made`.
  at::Tensor sampled(const std::array<Conditions, 2>& conditions, const at::Tensor& start,
                     const FrameCondition* given, int64_t first, Call call, Made& made);
  at::Tensor channels_of_image(const Wish& wish);
  // Passes the denoiser's estimates to the preview.
  void look(int64_t step, const at::Tensor& x0, const Preview& preview);
  // Pure noise, or `video` noised to the level at which its change starts, and the index of that level. It is
  // whole on every rank, and the same by (seed, number): ranks share only the model's work. Together with the
  // sampler's state it is float64 on the CPU, 37 MiB per tensor for Wan 14B at 720p and 81 frames; a block's
  // tensors are 92 (stream) to 277 MiB (q, k, v) in bfloat16 on the device of each of 8 ranks.
  std::pair<at::Tensor, int64_t> beginning(const Wish& wish);

  JobContext& context_;
  GenerateOptions options_;
  Part model_part_, tokenizer_part_;
  FrameOptions rule_;  // of the model's frames
  std::optional<TwoExperts> two_;
  const ComponentSpec& spec_;  // of the model
  at::Device device_;          // codes are drawn on the CPU
  LatentFacts facts_;
  Parallelism parallel_;
  std::unique_ptr<Network> tokenizer_;
  std::vector<int64_t> shape_;  // [C, t, h, w] of the latents; C = 1 for codes
  GivenFiles given_;
  std::unique_ptr<CacheInstance> cache_;
  Network model_;
  std::unique_ptr<Network> low_;  // the second of two experts that are both in memory
  std::unique_ptr<Experts> experts_;
  std::unique_ptr<TextEncoder> text_;     // null: the model reads no text
  std::unique_ptr<ImageEncoder> image_;   // null: the model reads no image, or none is encoded
  std::unique_ptr<Denoising> denoising_;  // either this or next_token_
  std::unique_ptr<NextToken> next_token_;
};

}  // namespace kinora::core
