#include "plugins/models/wan/wan.hpp"

#include <cmath>

namespace kinora::wan {

using at::Tensor;

namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(KINORA_INVALID, "model/wan: " + what); }

// t [B, R] -> [B, R, size] float64: cosines, then sines, of t * 10000^(-2i / size).
Tensor sinusoid(const Tensor& t, int64_t size) {
  const Tensor frequency =
      at::pow(10000.0, at::arange(0, size, 2, t.options().dtype(at::kDouble)) / -static_cast<double>(size));
  const Tensor angle = t.to(at::kDouble).unsqueeze(-1) * frequency;
  return at::cat({angle.cos(), angle.sin()}, -1);
}

// Epsilon of the image embedder's norms, whatever `eps` is.
constexpr double image_eps = 1e-5;

}  // namespace

Wan::Wan(const Options& given, const Ctx& ctx)
    : options_(checked(given)),
      signals_(ctx, signals_of(options_), options_.width(), options_.width(), "model/wan") {
  const auto& c = options_;
  const auto D = c.width();
  const auto narrow = Init::normal(0.02);
  const Declare outside(ctx, "condition_embedder.", -1);
  const auto fan = static_cast<double>(c.in_channels * c.patch() + D);
  const Declare first(ctx, "", 0), last(ctx, "", c.num_layers + 1);
  patch_ = {first.parameter("patch_embedding.weight",
                            {D, c.in_channels, c.patch_size[0], c.patch_size[1], c.patch_size[2]},
                            Init::uniform(std::sqrt(6 / fan))),
            first.parameter("patch_embedding.bias", {D}, Init::zeros())};
  time_in_ = outside.linear("time_embedder.linear_1", D, c.freq_dim, narrow);
  time_out_ = outside.linear("time_embedder.linear_2", D, D, narrow);
  modulation_ = outside.linear("time_proj", 6 * D, D);
  text_in_ = outside.linear("text_embedder.linear_1", D, c.text_dim, narrow);
  text_out_ = outside.linear("text_embedder.linear_2", D, D, narrow);
  if (c.image_dim > 0) {
    const Declare image = outside.in("image_embedder");
    image_norm_in_ = image.norm("norm1", c.image_dim);
    image_up_ = image.linear("ff.net.0.proj", c.image_dim, c.image_dim);
    image_down_ = image.linear("ff.net.2", D, c.image_dim);
    image_norm_out_ = image.norm("norm2", D);
    if (c.pos_embed_seq_len > 0)
      image_position_ =
          image.parameter("pos_embed", {1, c.pos_embed_seq_len, c.image_dim}, Init::zeros(), Role::table);
  }
  for (int64_t i = 1; i <= c.num_layers; ++i) blocks_.emplace_back(ctx, c, i);
  table_ = last.parameter("scale_shift_table", {1, 2, D}, Init::normal(1 / std::sqrt(static_cast<double>(D))),
                          Role::table);
  out_ = last.linear("proj_out", c.patch() * c.out_channels, D, Init::zeros());
}

Tensor Wan::input(const Named<Tensor>& in) const {
  Tensor x = in["latent"];
  if (in.has("condition")) x = at::cat({x, in["condition"].to(x.scalar_type())}, 1);
  if (x.size(1) != options_.in_channels)
    refuse(c10::str("latent and condition have ", x.size(1), " channels, in_channels is ",
                    options_.in_channels));
  return x;
}

Tensor Wan::patches(const Tensor& x) const {
  const auto& p = options_.patch_size;
  const auto F = x.size(2) / p[0], h = x.size(3) / p[1], w = x.size(4) / p[2];
  return x.reshape({x.size(0), x.size(1), F, p[0], h, p[1], w, p[2]})
      .permute({0, 2, 4, 6, 1, 3, 5, 7})
      .reshape({x.size(0), F * h * w, -1});
}

Tensor Wan::video(const Tensor& x, int64_t F, int64_t h, int64_t w) const {
  const auto& p = options_.patch_size;
  return x.reshape({x.size(0), F, h, w, p[0], p[1], p[2], -1})
      .permute({0, 7, 1, 4, 2, 5, 3, 6})
      .reshape({x.size(0), -1, F * p[0], h * p[1], w * p[2]});
}

// A convolution whose stride equals its kernel is a linear layer over patches.
Tensor Wan::embed(const Ctx& ctx, const Tensor& patches) const {
  const auto type = patches.scalar_type();
  return at::linear(patches, ctx.value(patch_.weight).flatten(1).to(type), ctx.value(patch_.bias).to(type));
}

Tensor Wan::time(const Ctx& ctx, const Named<Tensor>& in, const Videos& videos, const Tensor& x) const {
  const Tensor given = in["timestep"], t = given.dim() == 1 ? given.unsqueeze(1) : given;
  if (t.dim() != 2 || !videos.fit(t.size(0), t.size(1)))
    refuse(c10::str("timestep has shape ", given.sizes(), ", needed is ", videos.needed()));
  const Tensor waves = sinusoid(t, options_.freq_dim).to(x.device(), wide(x));
  const Tensor level = time_out_(ctx, at::silu(time_in_(ctx, waves, 0)), 0);
  return signals_.add(ctx, in, videos, wide(x), videos.rows(level));
}

// No text and a text of zeros, of any length, give the same result.
void Wan::read_text(const Ctx& ctx, const Named<Tensor>& in, const Tensor& x, int64_t B, Shared& s) const {
  const auto size = options_.text_dim;
  const Tensor text = in.has("text") ? in["text"].to(x.scalar_type()) : at::zeros({B, 1, size}, x.options());
  if (text.dim() != 3 || text.size(0) != B || text.size(2) != size)
    refuse(c10::str("text has shape ", text.sizes(), ", needed is [", B, ", L, ", size, "]"));
  s.text = text_out_(ctx, at::gelu(text_in_(ctx, text, 0), "tanh"), 0);
  if (!in.has("text_mask")) return;
  s.text_mask = in["text_mask"].to(at::kBool);
  if (s.text_mask.sizes() != text.sizes().slice(0, 2))
    refuse(c10::str("text_mask has shape ", s.text_mask.sizes(), ", text ", text.sizes()));
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
  image = at::gelu(image_up_(ctx, image_norm_in_(ctx, image, image_eps), 0));
  image = image_norm_out_(ctx, image_down_(ctx, image, 0), image_eps);
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
  const auto& p = c.patch_size;
  const Videos videos(in, in["latent"], {p[0], p[1], p[2]}, "model/wan");
  kinora_seq seq = 0;
  Tensor x = videos.patches(input(in), [this](const Tensor& v) { return patches(v); });
  x = videos.sequence(ctx, x, seq);
  const Tensor time = this->time(ctx, in, videos, x);
  Shared s;
  s.modulation = modulation_(ctx, at::silu(time), 0);
  s.row = videos.row_of_token(ctx, seq, time.size(1));
  read_text(ctx, in, x, videos.count(), s);
  read_image(ctx, in, x, videos.count(), s);
  signals_.append(ctx, in, s.text, s.text_mask);
  if (videos.packed()) {
    Tensor all;
    s.text_table = joined_text(s.text, s.text_mask);
    if (s.image.defined()) s.image_table = joined_text(s.image, all);
  }
  s.turns = rope_turns(ctx.table(seq, Place::inner), c.attention_head_dim, wide(x));

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
  return {videos.latent(ctx.leave(x, seq), [this](const Tensor& t, int64_t F, int64_t h, int64_t w) {
    return video(t, F, h, w);
  })};
}

}  // namespace kinora::wan
