// tokenizer/wan: the causal video VAE of Wan 2.1 and 2.2 (arXiv 2503.20314, section 4.1). Layout, names and
// numbers are those of diffusers' AutoencoderKLWan; the latent is the posterior's mode.
#pragma once
#include <memory>

#include "kinora/aten.hpp"
#include "kinora/tokenizer.hpp"
#include "plugins/tokenizers/wan/coder.hpp"

namespace kinora::wan {

class WanTokenizer final : public Tokenizer<at::Tensor> {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d);
  WanTokenizer(const Options& o, const Ctx& ctx);

  kinora_tokenizer_info info() const override;
  // video [B, 3, 1 + n * time, H, W] -> the mode, and mean and log variance [B, 2 z, t, h, w] of the same
  // posterior: both for (z - latents_mean) / latents_std if options.normalise.
  Encoded<at::Tensor> encode(const Ctx& ctx, const at::Tensor& video) override;
  at::Tensor decode(const Ctx& ctx, const at::Tensor& latent) override;
  // Pieces to encode: 1 + n * time frames, then multiples of `time`. Pieces to decode: any number of latent
  // frames.
  std::unique_ptr<TokenizerStream<at::Tensor>> open(const Ctx& ctx, bool decoding) override;

 private:
  class Stream;
  at::Tensor whole(const Ctx& ctx, const at::Tensor& x, bool decoding) const;
  Encoded<at::Tensor> encoded(const at::Tensor& moments) const;
  at::Tensor raw_latent(const at::Tensor& latent) const;
  at::Tensor video(const at::Tensor& decoded) const;

  int64_t blocks_ = 0;  // blocks of the context, counted as they are made
  Networks networks_;
};

}  // namespace kinora::wan
