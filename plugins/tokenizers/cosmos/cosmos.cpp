// tokenizer/cosmos: the causal tokenizers of Cosmos (arXiv 2501.03575, section 4). A Haar wavelet turns
// patches into channels; factorised causal convolutions and attention compress further. The latent is
// continuous (a plain autoencoder, without sampling) or discrete (finite scalar quantisation). Layout, names
// and numbers are those of diffusers' AutoencoderKLCosmos, and for codes and images those of NVIDIA's
// Cosmos-Tokenizer. An image tokenizer processes every frame of a video on its own.
#include <memory>
#include <optional>

#include "kinora/aten.hpp"
#include "kinora/plugin.hpp"
#include "kinora/tokenizer.hpp"
#include "plugins/tokenizers/cosmos/config.hpp"
#include "plugins/tokenizers/cosmos/fsq.hpp"
#include "plugins/tokenizers/cosmos/network.hpp"
#include "plugins/tokenizers/cosmos/principal.hpp"

namespace kinora::cosmos {

namespace {

using at::Tensor;
constexpr int64_t kVideoChannels = 3;

void check_input(const char* what, const Tensor& x, int64_t channels) {
  if (x.dim() != 5 || x.size(1) != channels || !x.is_floating_point() || x.numel() == 0)
    throw Error(KINORA_ERROR_INVALID, std::string("tokenizer/cosmos: ") + what +
                                          " must be a floating-point tensor [B, " + std::to_string(channels) +
                                          ", T, H, W] that is not empty, found " +
                                          c10::str(x.scalar_type(), x.sizes()));
}

}  // namespace

class CosmosTokenizer final : public Tokenizer<at::Tensor> {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d);
  CosmosTokenizer(const Options& o, const Ctx& ctx);

  kinora_tokenizer_info info() const override;
  // video [B, 3, 1 + n * time, H, W]; height and width are multiples of the spatial ratio. FSQ: the latent is
  // int32 codes, the posterior their vectors [B, embedding_dim, t, h, w], which carry the gradient.
  Encoded<at::Tensor> encode(const Run& call, const Ctx& ctx, const at::Tensor& video) override;
  // latent: as from encode; FSQ: codes, or vectors of them.
  at::Tensor decode(const Run& call, const Ctx& ctx, const at::Tensor& latent) override;
  // Pieces to encode: 1 + n * time frames, then multiples of `time`. Pieces to decode: any number of latent
  // frames.
  std::unique_ptr<TokenizerStream<at::Tensor>> open(const Run& call, const Ctx& ctx, bool decoding) override;
  // The principal components of the video's patches, see principal.hpp.
  std::vector<std::pair<std::string, at::Tensor>> fit(const Run& call, const Ctx& ctx,
                                                      const at::Tensor& video) override;

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

void CosmosTokenizer::describe(Describe<Options>& d) {
  d.name("cosmos").help(
      "Causal video and image tokenizers of Cosmos, continuous or discrete: Haar patches, factorised causal "
      "convolutions");
  d.input("video", "[B, 3, T, H, W]", "float", "values in [-1, 1]; T is 1 + n * temporal_compression_ratio");
  d.output("latent", "[B, latent_channels, t, h, w]", "float", "formulation FSQ: codes [B, t, h, w], int32");
  d.output("posterior", "[B, embedding_dim, t, h, w]", "float", "formulation FSQ: the codes' vectors");
  // NVIDIA's names count the decoder's blocks from the other end, and a name does not contain their number.
  for (const int64_t up_blocks : {3, 2, 4, 1})
    d.layout(up_blocks == 3 ? "nvidia" : "nvidia-" + std::to_string(up_blocks),
             "Cosmos-Tokenizer with a decoder of " + std::to_string(up_blocks) + " up blocks",
             [names = names(up_blocks)](const std::string& name) { return names.ours(name); });
  std::vector<std::string> sizes = published_sizes();
  sizes.insert(sizes.begin(), "");
  d.option("size", &Options::size)
      .choices(sizes)
      .help(
          "a published layout, such as CV8x8x8, which replaces all other options; empty: the other options");
  d.option("image", &Options::image).help("layers of the image tokenizers: every frame on its own");
  d.option("formulation", &Options::formulation)
      .choices({"AE", "FSQ"})
      .help("continuous latents, or codes by finite scalar quantisation");
  d.option("levels", &Options::levels).help("FSQ: number of values of each component of a code's vector");
  d.option("embedding_dim", &Options::embedding_dim)
      .range(1, 64)
      .help("FSQ: size of a code's vector, the number of levels");
  d.option("latent_channels", &Options::latent_channels)
      .range(1, 1024)
      .help("channels of the latent; FSQ: before quantisation");
  d.option("encoder_block_out_channels", &Options::encoder_block_out_channels)
      .help("channels after the first convolution, then after each down block");
  d.option("decode_block_out_channels", &Options::decode_block_out_channels)
      .help("channels of the decoder in the encoder's order: the deepest last");
  d.option("attention_resolutions", &Options::attention_resolutions)
      .help("blocks at these resolutions attend over space and time; the middle block always does");
  d.option("resolution", &Options::resolution)
      .range(1, 65536)
      .unit("px")
      .help("image size to which attention_resolutions refers");
  d.option("num_layers", &Options::num_layers)
      .range(1, 64)
      .help("residual blocks per level; the decoder has one more");
  d.option("patch_size", &Options::patch_size)
      .range(1, 16)
      .help("edge of a patch in time and space, a power of two");
  d.option("patch_type", &Options::patch_type)
      .choices({"haar", "rearrange"})
      .help("transformation of a patch into channels");
  d.option("spatial_compression_ratio", &Options::spatial_compression_ratio)
      .range(1, 256)
      .help("pixels per latent row, patch included; a power of two");
  d.option("temporal_compression_ratio", &Options::temporal_compression_ratio)
      .range(1, 256)
      .help("frames per latent frame after the first, patch included; a power of two");
  d.option("latents_mean", &Options::latents_mean)
      .help(
          "means in latents (z - latents_mean) / latents_std: one per channel, or one per channel and latent "
          "frame (published: 16 frames of 16 channels); empty: latents are z");
  d.option("latents_std", &Options::latents_std).help("standard deviations, as many as in latents_mean");
}

CosmosTokenizer::CosmosTokenizer(const Options& o, const Ctx& ctx)
    : options_(resolved(o)),
      fsq_(options_.discrete() ? std::optional<Fsq>(options_.levels) : std::nullopt),
      patcher_(options_.patch_size, options_.patch_type, options_.image),
      encoder_(Scope{ctx, options_.image}, options_, patcher_.channels(), blocks_),
      decoder_(Scope{ctx, options_.image}, options_, patcher_.channels(), blocks_),
      quant_(Scope{ctx, options_.image}, "quant_conv", options_.latent_channels, options_.code_channels(), 1,
             1),
      post_quant_(Scope{ctx, options_.image}, "post_quant_conv", options_.code_channels(),
                  options_.latent_channels, 1, 1) {}

kinora_tokenizer_info CosmosTokenizer::info() const {
  kinora_tokenizer_info i{};
  i.struct_size = sizeof i;
  i.discrete = fsq_ ? 1 : 0;
  i.channels = fsq_ ? 1 : options_.latent_channels;
  i.codes = fsq_ ? fsq_->size() : 0;
  i.time = options_.temporal_compression_ratio;
  i.height = i.width = options_.spatial_compression_ratio;
  i.decode_span = options_.image ? 1 : 0;  // a video's middle block attends to every earlier frame
  i.encode_span = options_.image ? 1 : 0;
  return i;
}

// first: the clip begins here.
Tensor CosmosTokenizer::patches(const Tensor& video, bool first) const {
  check_input("a video", video, kVideoChannels);
  const auto filler = patcher_.frames() - 1, ratio = options_.spatial_compression_ratio,
             time = options_.temporal_compression_ratio;
  const auto T = video.size(2), H = video.size(3), W = video.size(4);
  if (H % ratio || W % ratio || H == 0 || W == 0)
    throw Error(KINORA_ERROR_INVALID,
                "tokenizer/cosmos: a video of " + std::to_string(W) + " x " + std::to_string(H) +
                    " pixels; width and height must be multiples of " + std::to_string(ratio));
  const int64_t head = first ? 1 : 0;
  if (T < head || (T - head) % time || T == 0)
    throw Error(KINORA_ERROR_INVALID, "tokenizer/cosmos: " + std::to_string(T) + " frames; " +
                                          (head ? "1 + n * " : "n * ") + std::to_string(time) +
                                          " are needed" + (head ? "" : " in a stream's later pieces"));
  // The first frame fills a patch alone.
  return patcher_.patch(
      head && filler ? at::cat({video.narrow(2, 0, 1).expand({-1, -1, filler, -1, -1}), video}, 2) : video);
}

std::vector<std::pair<std::string, Tensor>> CosmosTokenizer::fit(const Run&, const Ctx&,
                                                                 const Tensor& video) {
  return principal_start(options_, patches(video, true));
}

Tensor CosmosTokenizer::scale(const std::vector<double>& list, const Tensor& z, int64_t at) const {
  const auto frames = static_cast<int64_t>(list.size()) / options_.latent_channels, t = z.size(2);
  const Tensor all = at::tensor(list, at::kDouble).view({1, options_.latent_channels, frames, 1, 1});
  if (frames > 1 && at + t > frames)
    throw Error(KINORA_ERROR_INVALID, "tokenizer/cosmos: latents_mean and latents_std are of " +
                                          std::to_string(frames) + " latent frames, these are " +
                                          std::to_string(at + t) +
                                          "; make a shorter video, or give one number a channel");
  return (frames > 1 ? all.narrow(2, at, t) : all).to(z.options());
}

Encoded<Tensor> CosmosTokenizer::encode(const Pass& run, const Tensor& video, int64_t at) const {
  const Tensor z = quant_.pointwise(run, encoder_(run, patches(video, run.first())));
  const auto channels_first = [](const Tensor& t) { return t.permute({0, 4, 1, 2, 3}).contiguous(); };
  if (!fsq_) {
    const Tensor latent = channels_first(z);
    if (options_.latents_mean.empty()) return {latent, {}};
    return {(latent - scale(options_.latents_mean, latent, at)) / scale(options_.latents_std, latent, at),
            {}};
  }
  const Tensor vectors = fsq_->vectors(z);
  return {fsq_->codes(vectors), channels_first(vectors)};
}

Tensor CosmosTokenizer::decode(const Pass& run, const Tensor& given, int64_t at) const {
  Tensor latent = given;
  const bool codes = fsq_ && !latent.is_floating_point();
  if (!codes) check_input("a latent", latent, options_.code_channels());
  if (codes && (latent.dim() != 4 || latent.numel() == 0 || !at::isIntegralType(latent.scalar_type(), false)))
    throw Error(KINORA_ERROR_INVALID,
                "tokenizer/cosmos: codes must be an integer tensor [B, t, h, w] that is not empty, found " +
                    c10::str(latent.scalar_type(), latent.sizes()));
  if (!options_.latents_mean.empty())
    latent = latent * scale(options_.latents_std, latent, at) + scale(options_.latents_mean, latent, at);
  const Tensor x =
      codes ? fsq_->vectors_of(latent, post_quant_.dtype(run)) : latent.permute({0, 2, 3, 4, 1}).contiguous();
  const Tensor video = patcher_.unpatch(decoder_(run, post_quant_.pointwise(run, x)));
  const int64_t filler = run.first() ? patcher_.frames() - 1 : 0;
  return video.narrow(2, filler, video.size(2) - filler);
}

Encoded<Tensor> CosmosTokenizer::encode(const Run&, const Ctx& ctx, const Tensor& video) {
  return encode(Pass{ctx}, video);
}

Tensor CosmosTokenizer::decode(const Run&, const Ctx& ctx, const Tensor& latent) {
  return decode(Pass{ctx}, latent);
}

class CosmosTokenizer::Stream final : public TokenizerStream<Tensor> {
 public:
  Stream(const CosmosTokenizer& of, const Ctx& ctx, bool decoding)
      : of_(of), ctx_(ctx), decoding_(decoding) {}
  Tensor push(const Run&, const Tensor& piece) override {
    History history = history_;  // a piece that fails leaves the stream unchanged
    history.next = 0;
    const Pass run{ctx_, &history};
    Tensor out = decoding_ ? of_.decode(run, piece, latents_) : of_.encode(run, piece, latents_).latent;
    history.first = false;
    latents_ += (decoding_ ? piece : out).size(-3);
    history_ = std::move(history);
    return out;
  }

 private:
  const CosmosTokenizer& of_;
  Ctx ctx_;
  bool decoding_;
  int64_t latents_ = 0;  // latent frames before the next piece
  History history_;
};

std::unique_ptr<TokenizerStream<Tensor>> CosmosTokenizer::open(const Run&, const Ctx& ctx, bool decoding) {
  return std::make_unique<Stream>(*this, ctx, decoding);
}

KINORA_COMPONENT(CosmosTokenizer)
KINORA_PLUGIN(CosmosTokenizer)

}  // namespace kinora::cosmos
