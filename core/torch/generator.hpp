// Everything that a generate job holds open: model, tokenizer, text encoder, sampler; and how one video is
// made.
#pragma once
#include <memory>
#include <optional>

#include "core/jobs/generating.hpp"
#include "core/torch/frame_condition.hpp"
#include "core/torch/guidance.hpp"
#include "core/torch/latents.hpp"
#include "core/torch/parallelism.hpp"
#include "core/torch/parts.hpp"
#include "core/torch/text_encoder.hpp"

namespace kinora::core {

// What one video is made from.
struct Wish {
  int64_t number = 0;  // keys the noise, with the seed
  uint64_t seed = 0;
  std::string prompt, negative;
  std::filesystem::path image, video;
};

class Generator {
 public:
  // Opens and loads everything. Throws Error that names the job's option at fault.
  Generator(JobContext& context, const GenerateOptions& options);

  struct Made {
    at::Tensor latent;                            // [1, C, t, h, w], as the tokenizer decodes it
    at::Tensor frames;                            // uint8 [T, H, W, 3]
    int64_t nfe = 0, model_calls = 0, steps = 0;  // nfe: calls of the denoiser
  };
  // preview (may be null): called after every preview_every steps with the first frame as it forms, uint8 [1,
  // H, W, 3].
  using Preview = std::function<void(int64_t step, const at::Tensor& frame)>;
  Made make(const Wish& wish, Progress& progress, const Preview& preview);
  double fps() const { return options_.fps > 0 ? options_.fps : facts_.fps; }

 private:
  LatentFacts read_facts() const;
  // The tokenizer's, from and to the CPU.
  at::Tensor encode(const at::Tensor& video);
  at::Tensor decode(const at::Tensor& latent);
  std::vector<int64_t> latent_shape();
  Guidance guidance() const;
  // [1, C, t, H, W] of the first `count` frames of a picture or video (0: as many as are generated),
  // normalised.
  at::Tensor encoded(const std::filesystem::path& file, int64_t count);
  void give_text(const Wish& wish, Conditions& with, Conditions& none);
  std::optional<FrameCondition> given_frames(const Wish& wish);
  // Input channels of the model besides the latent's: what is given with it.
  int64_t extra_channels() const;
  void give_channels(const std::optional<FrameCondition>& given, const Wish& wish, Conditions& both);
  at::Tensor channels_of_image(const Wish& wish);
  // The denoiser's answers on their way to the viewer.
  void look(int64_t step, const at::Tensor& x0, const Preview& preview);
  // Pure noise, or `video` noised to the level at which its change begins; the index of that level.
  std::pair<at::Tensor, int64_t> beginning(const Wish& wish);

  JobContext& context_;
  GenerateOptions options_;
  at::Device device_;
  Part model_part_, tokenizer_part_;
  LatentFacts facts_;
  Parallelism parallel_;
  LossInstance loss_;
  SamplerInstance sampler_;
  Network model_;
  std::unique_ptr<Network> tokenizer_;
  std::unique_ptr<TextEncoder> text_;  // null: the model has no text
  GuidedModel guided_;
  std::vector<int64_t> shape_;  // [C, t, h, w] of the latents
};

}  // namespace kinora::core
