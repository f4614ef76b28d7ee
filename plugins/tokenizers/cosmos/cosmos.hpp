// tokenizer/cosmos: the causal tokenizers of Cosmos (arXiv 2501.03575, section 4). A Haar wavelet turns
// patches into channels; factorised causal convolutions and attention compress further. The latent is
// continuous (a plain autoencoder, without sampling) or discrete (finite scalar quantisation). Layout, names and
// numbers are those of diffusers' AutoencoderKLCosmos, and for codes and images those of NVIDIA's
// Cosmos-Tokenizer. An image tokenizer processes every frame of a video on its own.
#pragma once
#include <memory>
#include <optional>

#include "kinora/aten.hpp"
#include "kinora/tokenizer.hpp"
#include "plugins/tokenizers/cosmos/fsq.hpp"
#include "plugins/tokenizers/cosmos/network.hpp"
#include "plugins/tokenizers/cosmos/patch.hpp"

namespace kinora::cosmos {

class CosmosTokenizer final : public Tokenizer<at::Tensor> {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d);
  CosmosTokenizer(const Options& o, const Ctx& ctx);

  kinora_tokenizer_info info() const override;
  // video [B, 3, 1 + n * time, H, W]; height and width are multiples of the spatial ratio. FSQ: the latent is
  // int32 codes, the posterior their vectors [B, embedding_dim, t, h, w], which carry the gradient.
  Encoded<at::Tensor> encode(const Ctx& ctx, const at::Tensor& video) override;
  // latent: as from encode; FSQ: codes, or vectors of them.
  at::Tensor decode(const Ctx& ctx, const at::Tensor& latent) override;
  // Pieces to encode: 1 + n * time frames, then multiples of `time`. Pieces to decode: any number of latent
  // frames.
  std::unique_ptr<TokenizerStream<at::Tensor>> open(const Ctx& ctx, bool decoding) override;
  // The principal components of the video's patches, see principal.hpp.
  std::vector<std::pair<std::string, at::Tensor>> fit(const Ctx& ctx, const at::Tensor& video) override;

 private:
  class Stream;
  at::Tensor patches(const at::Tensor& video, bool first) const;
  // at: number of earlier latent frames, in a stream.
  Encoded<at::Tensor> encode(const Pass& run, const at::Tensor& video, int64_t at = 0) const;
  at::Tensor decode(const Pass& run, const at::Tensor& latent, int64_t at = 0) const;
  // A list of the options as [1, C, 1 or t, 1, 1], for the latent frames of z from `at` on.
  at::Tensor scale(const std::vector<double>& list, const at::Tensor& z, int64_t at) const;

  Options options_;
  std::optional<Fsq> fsq_;
  Patcher patcher_;
  int64_t blocks_ = 0;  // blocks of the context, counted as they are made
  Encoder encoder_;
  Decoder decoder_;
  Conv quant_, post_quant_;
};

}  // namespace kinora::cosmos
