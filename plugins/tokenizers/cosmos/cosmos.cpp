#include "plugins/tokenizers/cosmos/cosmos.hpp"

namespace kinora::cosmos {
namespace {

using at::Tensor;
constexpr int64_t kVideoChannels = 3;

int64_t patch_channels(const Config& c) {
  return kVideoChannels * c.patch_size * c.patch_size * c.patch_size;
}

void check_input(const char* what, const Tensor& x, int64_t channels) {
  if (x.dim() != 5 || x.size(1) != channels || !x.is_floating_point())
    throw Error(KINORA_INVALID, std::string("tokenizer/cosmos: ") + what +
                                    " must be a floating-point tensor [B, " + std::to_string(channels) +
                                    ", T, H, W], found " + c10::str(x.scalar_type(), x.sizes()));
}

}  // namespace

void CosmosTokenizer::describe(Describe<Options>& d) {
  d.name("cosmos").help(
      "Continuous causal video tokenizer of Cosmos: Haar patches, factorised causal convolutions");
  d.input("video", "[B, 3, T, H, W]", "float", "in [-1, 1]; T is 1 + n * temporal_compression_ratio");
  d.output("latent", "[B, latent_channels, t, h, w]", "float");
  d.option("latent_channels", &Options::latent_channels).range(1, 1024).help("channels of the latent");
  d.option("encoder_block_out_channels", &Options::encoder_block_out_channels)
      .help("channels after the first convolution, then after each down block");
  d.option("decode_block_out_channels", &Options::decode_block_out_channels)
      .help("the decoder's, in the encoder's order: the deepest last");
  d.option("attention_resolutions", &Options::attention_resolutions)
      .help("blocks at these resolutions attend over space and time; the middle block always does");
  d.option("resolution", &Options::resolution)
      .range(1, 65536)
      .unit("px")
      .help("what attention_resolutions counts from");
  d.option("num_layers", &Options::num_layers)
      .range(1, 64)
      .help("residual blocks a level; the decoder has one more");
  d.option("patch_size", &Options::patch_size)
      .range(1, 16)
      .help("edge of a patch in time and space, a power of two");
  d.option("patch_type", &Options::patch_type)
      .choices({"haar", "rearrange"})
      .help("how a patch becomes channels");
  d.option("spatial_compression_ratio", &Options::spatial_compression_ratio)
      .range(1, 256)
      .help("pixels a latent row, patch included; a power of two");
  d.option("temporal_compression_ratio", &Options::temporal_compression_ratio)
      .range(1, 256)
      .help("frames a latent frame after the first, patch included; a power of two");
}

CosmosTokenizer::CosmosTokenizer(const Options& o, const Ctx& ctx)
    : options_(o),
      patcher_(o.patch_size, o.patch_type),
      encoder_(ctx, o, patch_channels(o), blocks_),
      decoder_(ctx, o, patch_channels(o), blocks_),
      quant_(ctx, "quant_conv", o.latent_channels, o.latent_channels, 1, 1),
      post_quant_(ctx, "post_quant_conv", o.latent_channels, o.latent_channels, 1, 1) {}

kinora_tokenizer_info CosmosTokenizer::info() const {
  kinora_tokenizer_info i{};
  i.struct_size = sizeof i;
  i.channels = options_.latent_channels;
  i.time = options_.temporal_compression_ratio;
  i.height = i.width = options_.spatial_compression_ratio;
  i.halo = -1;  // attention over time in the middle block sees every frame before
  return i;
}

Tensor CosmosTokenizer::encode(const Pass& run, const Tensor& video) const {
  check_input("a video", video, kVideoChannels);
  const auto p = options_.patch_size, ratio = options_.spatial_compression_ratio,
             time = options_.temporal_compression_ratio;
  const auto T = video.size(2), H = video.size(3), W = video.size(4);
  if (H % ratio || W % ratio || H == 0 || W == 0)
    throw Error(KINORA_INVALID, "tokenizer/cosmos: a video of " + std::to_string(W) + " x " +
                                    std::to_string(H) + " pixels; width and height must be multiples of " +
                                    std::to_string(ratio));
  const int64_t head = run.first() ? 1 : 0;
  if (T < head || (T - head) % time || T == 0)
    throw Error(KINORA_INVALID, "tokenizer/cosmos: " + std::to_string(T) + " frames; " +
                                    (head ? "1 + n * " : "n * ") + std::to_string(time) + " are needed" +
                                    (head ? "" : " in a stream's later pieces"));
  // The first frame fills a patch by itself.
  const Tensor x = head ? at::cat({video.narrow(2, 0, 1).expand({-1, -1, p - 1, -1, -1}), video}, 2) : video;
  return quant_.pointwise(run, encoder_(run, patcher_.patch(x))).permute({0, 4, 1, 2, 3}).contiguous();
}

Tensor CosmosTokenizer::decode(const Pass& run, const Tensor& latent) const {
  check_input("a latent", latent, options_.latent_channels);
  const Tensor x = latent.permute({0, 2, 3, 4, 1}).contiguous();
  const Tensor video = patcher_.unpatch(decoder_(run, post_quant_.pointwise(run, x)));
  const int64_t filler = run.first() ? options_.patch_size - 1 : 0;
  return video.narrow(2, filler, video.size(2) - filler);
}

Encoded<Tensor> CosmosTokenizer::encode(const Ctx& ctx, const Tensor& video) {
  return {encode(Pass{ctx}, video), {}};
}

Tensor CosmosTokenizer::decode(const Ctx& ctx, const Tensor& latent) { return decode(Pass{ctx}, latent); }

class CosmosTokenizer::Stream final : public TokenizerStream<Tensor> {
 public:
  Stream(const CosmosTokenizer& of, const Ctx& ctx, bool decoding)
      : of_(of), ctx_(ctx), decoding_(decoding) {}
  Tensor push(const Tensor& piece) override {
    History history = history_;  // a piece that fails leaves the stream as it was
    history.next = 0;
    const Pass run{ctx_, &history};
    Tensor out = decoding_ ? of_.decode(run, piece) : of_.encode(run, piece);
    history.first = false;
    history_ = std::move(history);
    return out;
  }

 private:
  const CosmosTokenizer& of_;
  Ctx ctx_;
  bool decoding_;
  History history_;
};

std::unique_ptr<TokenizerStream<Tensor>> CosmosTokenizer::open(const Ctx& ctx, bool decoding) {
  return std::make_unique<Stream>(*this, ctx, decoding);
}

}  // namespace kinora::cosmos
