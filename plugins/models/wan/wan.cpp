// model/wan: the video diffusion transformer of Wan 2.1 and 2.2 (arXiv 2503.20314, section 4.2). Layout and
// names are those of diffusers' WanTransformer3DModel; angles and conditioning have the precision of Wan's
// own code.
//
// B batch, C channels, T H W the latent's frames, rows, columns; F h w the tokens'; N = F * h * w; D width;
// R rows of conditioning (1, F or N). For a packed row of n videos, see kinora/videos.hpp.
#include <vector>

#include "kinora/model.hpp"
#include "kinora/patches.hpp"
#include "kinora/plugin.hpp"
#include "kinora/signals.hpp"
#include "plugins/models/wan/block.hpp"

namespace kinora::wan {

using at::Tensor;

namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(KINORA_ERROR_INVALID, "model/wan: " + what); }

// Epsilon of the image embedder's norms, whatever `eps` is.
constexpr double image_eps = 1e-5;

}  // namespace

class Wan final : public Model<at::Tensor> {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d) { wan::describe(d); }
  Wan(const Options& o, const Ctx& ctx);
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return options_.num_layers + 2; }

 private:
  Videos::Size patch() const {
    return {options_.patch_size[0], options_.patch_size[1], options_.patch_size[2]};
  }
  at::Tensor embed(const Ctx& ctx, const at::Tensor& patches) const;
  // [B, R, D] for the noise level and the signals. x: the local tokens, for their dtype and device.
  at::Tensor time(const Ctx& ctx, const Named<at::Tensor>& in, const Videos& videos,
                  const at::Tensor& x) const;
  // The image of each video, [count, ...].
  void read_image(const Ctx& ctx, const Named<at::Tensor>& in, const at::Tensor& x, int64_t count,
                  Shared& s) const;
  // time [B, R, D], row: Shared::row.
  at::Tensor head(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const at::Tensor& time,
                  const at::Tensor& row) const;

  Options options_;
  Linear patch_, modulation_, text_in_, text_out_, image_up_, image_down_, out_;
  Embedder time_;
  LayerNorm image_norm_in_, image_norm_out_;
  kinora_param image_position_ = 0, table_ = 0;
  std::vector<Block> blocks_;
  Signals signals_;
};

Wan::Wan(const Options& given, const Ctx& ctx)
    : options_(checked(given)),
      signals_(ctx, signals_of(options_), options_.width(), options_.width(), "model/wan") {
  const auto& c = options_;
  const auto D = c.width();
  const auto narrow = Init::normal(0.02);
  const Declare outside(ctx, "condition_embedder.", -1);
  const Declare first(ctx, "", 0), last(ctx, "", c.num_layers + 1);
  patch_ = {
      first("patch_embedding.weight", {D, c.in_channels, c.patch_size[0], c.patch_size[1], c.patch_size[2]},
            xavier(D, c.in_channels * c.patch())),
      first("patch_embedding.bias", {D}, Init::zeros())};
  time_ = {outside.biased("time_embedder.linear_1", D, c.freq_dim, narrow),
           outside.biased("time_embedder.linear_2", D, D, narrow)};
  modulation_ = outside.biased("time_proj", 6 * D, D);
  text_in_ = outside.biased("text_embedder.linear_1", D, c.text_dim, narrow);
  text_out_ = outside.biased("text_embedder.linear_2", D, D, narrow);
  if (c.image_dim > 0) {
    const Declare image = outside.in("image_embedder");
    image_norm_in_ = image.layer_norm("norm1", c.image_dim, image_eps);
    image_up_ = image.biased("ff.net.0.proj", c.image_dim, c.image_dim);
    image_down_ = image.biased("ff.net.2", D, c.image_dim);
    image_norm_out_ = image.layer_norm("norm2", D, image_eps);
    if (c.pos_embed_seq_len > 0)
      image_position_ = image("pos_embed", {1, c.pos_embed_seq_len, c.image_dim}, Init::zeros(), Role::table);
  }
  for (int64_t i = 1; i <= c.num_layers; ++i) blocks_.emplace_back(ctx, c, i);
  table_ = last("scale_shift_table", {1, 2, D}, fan_in(D), Role::table);
  out_ = last.biased("proj_out", c.patch() * c.out_channels, D, Init::zeros());
}

// A convolution whose stride equals its kernel is a linear layer over patches.
Tensor Wan::embed(const Ctx& ctx, const Tensor& patches) const {
  return at::linear(patches, value_as(ctx, patch_.weight, patches).flatten(1),
                    value_as(ctx, patch_.bias, patches));
}

Tensor Wan::time(const Ctx& ctx, const Named<Tensor>& in, const Videos& videos, const Tensor& x) const {
  const Tensor angle = rope_angles(videos.timestep(in), options_.freq_dim, 10000);
  const Tensor waves = at::cat({angle.cos(), angle.sin()}, -1).to(x.device(), wide_type(x));
  return signals_.add(ctx, in, videos, wide_type(x), videos.rows(time_(ctx, waves)));
}

void Wan::read_image(const Ctx& ctx, const Named<Tensor>& in, const Tensor& x, int64_t B, Shared& s) const {
  const auto& c = options_;
  if (!in.has("image")) {
    if (c.added_kv_proj_dim > 0) refuse("input 'image' is missing; added_kv_proj_dim says that there is one");
    return;
  }
  if (c.image_dim == 0) refuse("an image is given, but image_dim is 0: this model has no image embedder");
  Tensor image = in["image"].to(x.scalar_type());
  const auto placed = c.pos_embed_seq_len;
  if (image.dim() != 3 || image.size(0) != B || image.size(2) != c.image_dim ||
      (placed > 0 && image.size(1) != placed))
    refuse(c10::str("image has shape ", image.sizes(), ", needed is [", B, ", ",
                    placed > 0 ? std::to_string(placed) : "Li", ", ", c.image_dim, "]"));
  if (placed > 0) image = image + ctx.value(image_position_).to(image.scalar_type());
  image = at::gelu(image_up_(ctx, wide_norm(ctx, image_norm_in_, image)));
  image = wide_norm(ctx, image_norm_out_, image_down_(ctx, image));
  if (c.added_kv_proj_dim > 0) {
    s.image = image;
    return;
  }
  s.text = at::cat({image, s.text}, 1);
  if (s.text_mask.defined())
    s.text_mask = at::cat({s.text_mask.new_ones({image.size(0), image.size(1)}), s.text_mask}, 1);
}

Tensor Wan::head(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Tensor& time,
                 const Tensor& row) const {
  const Tensor table = ctx.value(table_).to(time.scalar_type()).unsqueeze(1);
  const auto parts = (table + time.unsqueeze(2)).unbind(2);
  return out_(ctx, modulated(x, at_rows(parts[0], row), at_rows(parts[1], row), options_.eps), seq);
}

std::vector<Tensor> Wan::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const auto& c = options_;
  const Videos videos(in, in["latent"], patch(), "model/wan");
  kinora_seq seq = 0;
  Tensor x =
      videos.patches(latent_with(in, "condition", c.in_channels, "model/wan"),
                     [this](const Tensor& v) { return patchify(v, patch(), PatchOrder::channels_first); });
  x = videos.sequence(ctx, x, seq);
  const Tensor time = this->time(ctx, in, videos, x);
  Shared s;
  s.modulation = modulation_(ctx, at::silu(time), 0);
  s.row = videos.row_of_token(ctx, seq, time.size(1));
  // No text and a text of zeros, of any length, give the same result.
  const Text text = read_text(in, x, videos.count(), c.text_dim, "model/wan");
  s.text = text_out_(ctx, at::gelu(text_in_(ctx, text.tokens), "tanh"));
  s.text_mask = text.mask;
  read_image(ctx, in, x, videos.count(), s);
  signals_.append(ctx, in, s.text, s.text_mask);
  if (videos.packed()) {
    Tensor all;
    s.text_table = joined_text(videos, s.text, s.text_mask);
    if (s.image.defined()) s.image_table = joined_text(videos, s.image, all);
  }
  s.turns = rope_turns(ctx.table(seq, Place::inner), c.attention_head_dim, {1, 1, 1}, {}, x);

  using Tensors = std::vector<Tensor>;
  x = ctx.block(0, {x}, {}, 1, [this, ctx](const Tensors& t) { return Tensors{embed(ctx, t[0])}; })[0];
  const auto has = s.has();
  for (size_t i = 0; i < blocks_.size(); ++i)
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, s.pack(), 1, [this, ctx, seq, i, has](const Tensors& t) {
      return Tensors{blocks_[i](ctx, seq, t[0], Shared::unpack(t, 1, has))};
    })[0];
  Tensors last{time};
  if (s.row.defined()) last.push_back(s.row);
  x = ctx.block(c.num_layers + 1, {x}, last, 1, [this, ctx, seq](const Tensors& t) {
    return Tensors{head(ctx, seq, t[0], t[1], t.size() > 2 ? t[2] : Tensor())};
  })[0];
  return {videos.latent(ctx.gather(x, seq), [this](const Tensor& t, int64_t F, int64_t h, int64_t w) {
    return unpatchify(t, {F, h, w}, patch(), PatchOrder::channels_last);
  })};
}

KINORA_COMPONENT(Wan)
KINORA_PLUGIN(Wan)

}  // namespace kinora::wan
