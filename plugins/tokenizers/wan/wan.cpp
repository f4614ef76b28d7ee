// tokenizer/wan: the causal video VAE of Wan 2.1 and 2.2 (arXiv 2503.20314, section 4.1). Layout, names and
// numbers are those of diffusers' AutoencoderKLWan; the latent is the posterior's mode.
#include <algorithm>
#include <memory>

#include "kinora/aten.hpp"
#include "kinora/plugin.hpp"
#include "kinora/tokenizer.hpp"
#include "plugins/tokenizers/wan/coder.hpp"
#include "plugins/tokenizers/wan/config.hpp"

namespace kinora::wan {

namespace {

using at::Tensor;

// [1, z, 1, 1, 1]
Tensor by_channel(const std::vector<double>& values, const Tensor& like) {
  return at::tensor(values, at::kDouble).to(like.options()).view({1, -1, 1, 1, 1});
}

void describe_network(Describe<Config>& d) {
  d.option("size", &Config::size)
      .choices({"", "2.1", "2.2"})
      .help("a published VAE, which sets all options from base_dim to latents_std; empty: the other options");
  d.option("base_dim", &Config::base_dim).range(1, 65536).help("channels of the encoder's first level");
  d.option("decoder_base_dim", &Config::decoder_base_dim)
      .range(0, 65536)
      .help("channels of the decoder's last level; 0: base_dim");
  d.option("z_dim", &Config::z_dim).range(1, 65536).help("channels of the latent");
  d.option("dim_mult", &Config::dim_mult)
      .range(1, 1024)
      .help("channels of each level divided by base_dim; rows and columns are halved between levels");
  d.option("num_res_blocks", &Config::num_res_blocks)
      .range(1, 64)
      .help("residual blocks per level; the decoder has one more");
  d.option("attn_scales", &Config::attn_scales)
      .help("scales (1, 0.5, ...) at which the encoder attends within a frame, in addition to the middle");
  d.option("temperal_downsample", &Config::temperal_downsample)
      .range(0, 1)
      .help("halving of the frames too, for each level but the last");
  d.option("is_residual", &Config::is_residual).help("2.2: every level has a shortcut");
  d.option("in_channels", &Config::in_channels)
      .range(1, 65536)
      .help("channels of the video, times patch_size^2");
  d.option("out_channels", &Config::out_channels)
      .range(1, 65536)
      .help("channels of the video, times patch_size^2");
  d.option("patch_size", &Config::patch_size)
      .range(1, 64)
      .help("edge of the pixel patch that becomes channels; 1: no patches");
  d.option("scale_factor_spatial", &Config::scale_factor_spatial)
      .range(1, 65536)
      .help("published value, ignored: dim_mult and patch_size decide");
  d.option("scale_factor_temporal", &Config::scale_factor_temporal)
      .range(1, 65536)
      .help("published value, ignored: temperal_downsample decides");
  d.option("latents_mean", &Config::latents_mean).help("mean of each channel of the latent; empty: 0");
  d.option("latents_std", &Config::latents_std)
      .above(0)
      .help("standard deviation of each channel of the latent; empty: 1");
}

void describe_use(Describe<Config>& d) {
  d.option("normalise", &Config::normalise)
      .help("latents are normalised, (z - latents_mean) / latents_std, as diffusion models expect them");
  d.option("clamp", &Config::clamp).help("limit decoded pixels to [-1, 1], as in diffusers");
  const auto tile = [&](const char* name, int64_t Config::*field) -> OptionLine& {
    return d.option(name, field).range(0, 65536).unit("px");
  };
  tile("tile_height", &Config::tile_height)
      .help(
          "rows of a tile, if the image has more; 0: no tiles. The encoder counts patches, as in diffusers");
  tile("tile_width", &Config::tile_width).help("columns of a tile");
  tile("tile_stride_height", &Config::tile_stride_height)
      .help("distance of tiles in rows; overlapping rows are blended; 0: tile_height");
  tile("tile_stride_width", &Config::tile_stride_width).help("distance of tiles in columns; 0: tile_width");
  d.option("tile_frames", &Config::tile_frames)
      .range(0, 1 << 30)
      .unit("frames")
      .help(
          "frames of a tile in time, one more in the first; each tile starts like a clip. 0: no tiles in "
          "time");
  d.option("tile_stride_frames", &Config::tile_stride_frames)
      .range(0, 1 << 30)
      .unit("frames")
      .help("distance of tiles in frames; overlapping frames are blended; 0: tile_frames");
}

}  // namespace

class WanTokenizer final : public Tokenizer<at::Tensor> {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d);
  WanTokenizer(const Options& o, const Ctx& ctx);

  kinora_tokenizer_info info() const override;
  // video [B, 3, 1 + n * time, H, W] -> the mode, and mean and log variance [B, 2 z, t, h, w] of the same
  // posterior: both for (z - latents_mean) / latents_std if options.normalise.
  Encoded<at::Tensor> encode(const Run& run, const Ctx& ctx, const at::Tensor& video) override;
  at::Tensor decode(const Run& run, const Ctx& ctx, const at::Tensor& latent) override;
  // Pieces to encode: 1 + n * time frames, then multiples of `time`. Pieces to decode: any number of latent
  // frames.
  std::unique_ptr<TokenizerStream<at::Tensor>> open(const Run& run, const Ctx& ctx, bool decoding) override;

 private:
  class Stream;
  at::Tensor whole(const Run& run, const Ctx& ctx, const at::Tensor& x, bool decoding) const;
  Encoded<at::Tensor> encoded(const at::Tensor& moments) const;
  at::Tensor raw_latent(const at::Tensor& latent) const;
  at::Tensor video(const at::Tensor& decoded) const;

  int64_t blocks_ = 0;  // blocks of the context, counted as they are made
  Networks networks_;
};

void WanTokenizer::describe(Describe<Options>& d) {
  d.name("wan").help("Causal video VAE of Wan 2.1 and 2.2, streaming and tiled");
  d.input("video", "[B, 3, T, H, W]", "float",
          "values in [-1, 1]; T is 1 + 4 n, rows and columns multiples of 8 or 16");
  d.output("latent", "[B, z_dim, t, h, w]", "float");
  d.layout("original", "the authors' checkpoints, 2.1 and 2.2",
           [](const std::string& name) { return diffusers_name(name); });
  describe_network(d);
  describe_use(d);
}

WanTokenizer::WanTokenizer(const Options& o, const Ctx& ctx)
    : networks_([&]() -> Networks {
        const Config c = resolved(o);
        const Declaring d{ctx, blocks_};
        return {c, Encoder(d, c), Decoder(d, c)};
      }()) {}

kinora_tokenizer_info WanTokenizer::info() const {
  const Config& c = networks_.config;
  kinora_tokenizer_info i{};
  i.struct_size = sizeof i;
  i.channels = c.z_dim;
  i.time = c.time();
  i.height = i.width = c.space();
  i.decode_span = decoder_span(c);
  i.encode_span = encoder_span(c);
  return i;
}

// Tiles in time: tile k is the clip from frame k * stride on. Its first frame (coded as an image) is dropped
// except in tile 0, and its beginning is blended into the end of the previous tile.
Tensor WanTokenizer::whole(const Run& run, const Ctx& ctx, const Tensor& x, bool decoding) const {
  const Config& c = networks_.config;
  const auto in = decoding ? c.time() : 1, out = decoding ? 1 : c.time();
  const auto tile = c.tile_frames / in, stride = c.tile_stride_frames / in;
  if (tile == 0 || x.dim() != 5 || x.size(2) - 1 <= tile)
    return Coder(networks_, decoding).push(run, ctx, x, true);
  std::vector<Tensor> parts;
  Tensor before;
  for (int64_t at = 0; at + 1 < x.size(2); at += stride) {
    const Tensor part = x.narrow(2, at, 1 + std::min(tile, x.size(2) - 1 - at));
    Tensor y = Coder(networks_, decoding).push(run, ctx, part, true);
    const int64_t head = at == 0 ? 1 : 0;
    if (!head)
      y = blended(before, y.narrow(2, 1, y.size(2) - 1), 2, (c.tile_frames - c.tile_stride_frames) / out);
    parts.push_back(y.narrow(2, 0, std::min(y.size(2), head + c.tile_stride_frames / out)));
    before = std::move(y);
  }
  return at::cat(parts, 2);
}

Encoded<Tensor> WanTokenizer::encoded(const Tensor& moments) const {
  const Config& c = networks_.config;
  if (!c.normalise || c.latents_mean.empty()) return {moments.narrow(1, 0, c.z_dim).contiguous(), moments};
  const Tensor std = by_channel(c.latents_std, moments);
  const Tensor mode = (moments.narrow(1, 0, c.z_dim) - by_channel(c.latents_mean, moments)) / std;
  return {mode, at::cat({mode, moments.narrow(1, c.z_dim, c.z_dim) - 2 * std.log()}, 1)};
}

Tensor WanTokenizer::raw_latent(const Tensor& latent) const {
  const Config& c = networks_.config;
  if (!c.normalise || c.latents_mean.empty() || latent.dim() != 5 || latent.size(1) != c.z_dim) return latent;
  return latent * by_channel(c.latents_std, latent) + by_channel(c.latents_mean, latent);
}

Tensor WanTokenizer::video(const Tensor& decoded) const {
  return networks_.config.clamp ? decoded.clamp(-1, 1) : decoded;
}

Encoded<Tensor> WanTokenizer::encode(const Run& run, const Ctx& ctx, const Tensor& video) {
  return encoded(whole(run, ctx, video, false));
}

Tensor WanTokenizer::decode(const Run& run, const Ctx& ctx, const Tensor& latent) {
  return video(whole(run, ctx, raw_latent(latent), true));
}

class WanTokenizer::Stream final : public TokenizerStream<Tensor> {
 public:
  Stream(const WanTokenizer& of, const Ctx& ctx, bool decoding)
      : of_(of), ctx_(ctx), decoding_(decoding), coder_(of.networks_, decoding) {}
  Tensor push(const Run& run, const Tensor& piece) override {
    if (decoding_) return of_.video(coder_.push(run, ctx_, of_.raw_latent(piece), false));
    return of_.encoded(coder_.push(run, ctx_, piece, false)).latent;
  }

 private:
  const WanTokenizer& of_;
  Ctx ctx_;
  bool decoding_;
  Coder coder_;
};

std::unique_ptr<TokenizerStream<Tensor>> WanTokenizer::open(const Run&, const Ctx& ctx, bool decoding) {
  if (networks_.config.tile_frames)
    throw Error(
        KINORA_ERROR_UNSUPPORTED,
        "tokenizer/wan: tile_frames is for whole clips; a stream's memory does not grow without it, set "
        "tile_frames = 0");
  return std::make_unique<Stream>(*this, ctx, decoding);
}

KINORA_COMPONENT(WanTokenizer)
KINORA_PLUGIN(WanTokenizer)

}  // namespace kinora::wan
