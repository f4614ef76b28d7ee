#include "plugins/models/cosmos/cosmos.hpp"

#include <cmath>

#include "kernels/torch/modulate.hpp"

namespace kinora::cosmos {

using at::Tensor;

namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(KINORA_INVALID, "model/cosmos: " + what); }

}  // namespace

Tensor patchify(const Tensor& x, int64_t pt, int64_t p) {
  const auto B = x.size(0), C = x.size(1), F = x.size(2) / pt, h = x.size(3) / p, w = x.size(4) / p;
  return x.reshape({B, C, F, pt, h, p, w, p})
      .permute({0, 2, 4, 6, 1, 3, 5, 7})
      .reshape({B, F * h * w, C * pt * p * p});
}

Tensor unpatchify(const Tensor& x, int64_t F, int64_t h, int64_t w, int64_t pt, int64_t p) {
  const auto B = x.size(0), C = x.size(2) / (pt * p * p);
  return x.reshape({B, F, h, w, p, p, pt, C})
      .permute({0, 7, 1, 6, 2, 4, 3, 5})
      .reshape({B, C, F * pt, h * p, w * p});
}

Tensor sinusoid(const Tensor& t, int64_t size) {
  const auto type = t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto half = size / 2;
  const Tensor exponent =
      at::arange(half, t.options().dtype(type)) * (-std::log(10000.0) / static_cast<double>(half));
  const Tensor angle = t.to(type).unsqueeze(-1) * at::exp(exponent);
  return at::cat({angle.cos(), angle.sin()}, -1);
}

Cosmos::Cosmos(const Options& given, const Ctx& ctx)
    : options_(checked(given)),
      norm_out_(Declare(ctx, "norm_out.", options_.layers + 1), options_.width(), options_.adaln_lora, 2) {
  const auto& c = options_;
  const auto D = c.width(), patch = c.patch_time * c.patch_space * c.patch_space;
  embed_ = Declare(ctx, "", 0).linear("patch_embed.proj", D, (c.in_channels + c.concat_padding_mask) * patch);
  const Declare outside(ctx, "", -1);
  time_in_ = outside.weight("time_embed.t_embedder.linear_1", {D, D}, Init::normal(0.02));
  time_out_ = outside.weight("time_embed.t_embedder.linear_2", {3 * D, D}, Init::zeros());
  time_norm_ = outside.weight("time_embed.norm", {D}, Init::ones());
  for (int64_t i = 1; i <= c.layers; ++i) blocks_.emplace_back(ctx, c, i);
  out_ = Declare(ctx, "", c.layers + 1).weight("proj_out", {patch * c.out_channels, D}, Init::zeros());
  if (c.learnable_pos_embed) declare_position(ctx);
  if (c.logvar) declare_variance(ctx);
}

void Cosmos::declare_position(const Ctx& ctx) {
  const auto& c = options_;
  const int64_t sizes[] = {c.max_size[0] / c.patch_time, c.max_size[1] / c.patch_space,
                           c.max_size[2] / c.patch_space};
  const char* axes[] = {"t", "h", "w"};
  for (size_t i = 0; i < 3; ++i) {
    Parameter p;
    p.name = std::string("learnable_pos_embed.pos_emb_") + axes[i];
    p.shape = {sizes[i], c.width()};
    p.init = Init::normal(0.02);
    position_.push_back(ctx.parameter(p));
  }
}

// Random Fourier features of 128 frequencies, then a linear layer; the names are cosmos-predict1's.
void Cosmos::declare_variance(const Ctx& ctx) {
  Parameter p;
  p.block = options_.layers + 1;
  p.shape = {128};
  p.frozen = true;
  p.name = "logvar.0.freqs";
  p.init = Init::normal(2 * M_PI);
  frequencies_ = ctx.parameter(p);
  p.name = "logvar.0.phases";
  p.init = Init::uniform(M_PI);
  phases_ = ctx.parameter(p);
  variance_ = Declare(ctx, "", p.block).weight("logvar.1", {1, 128}, Init::zeros());
}

Tensor Cosmos::input(const Named<Tensor>& in) const {
  const auto& c = options_;
  Tensor x = in["latent"];
  if (x.dim() != 5 || !x.is_floating_point())
    refuse("latent must be a floating-point tensor [B, C, T, H, W]");
  if (in.has("condition_mask")) x = at::cat({x, in["condition_mask"].to(x.scalar_type())}, 1);
  const auto B = x.size(0), T = x.size(2), H = x.size(3), W = x.size(4);
  if (x.size(1) != c.in_channels)
    refuse("latent and condition_mask have " + std::to_string(x.size(1)) + " channels, in_channels is " +
           std::to_string(c.in_channels));
  if (T % c.patch_time || H % c.patch_space || W % c.patch_space)
    refuse(c10::str("a latent of ", T, " x ", H, " x ", W, " does not divide into patches of ", c.patch_time,
                    " x ", c.patch_space, " x ", c.patch_space));
  if (T > c.max_size[0] || H > c.max_size[1] || W > c.max_size[2])
    refuse(c10::str("a latent of ", T, " x ", H, " x ", W, " is larger than max_size, ", c.max_size[0], " x ",
                    c.max_size[1], " x ", c.max_size[2], "; raise max_size"));
  if (!c.concat_padding_mask) return x;
  Tensor padding = at::zeros({1, 1, H, W}, x.options());
  if (in.has("padding_mask"))
    padding = at::upsample_nearest2d(in["padding_mask"].to(x.scalar_type()), {H, W});
  return at::cat({x, padding.unsqueeze(2).expand({B, 1, T, H, W})}, 1);
}

Tensor Cosmos::checked_timestep(const Tensor& timestep, int64_t B, int64_t F) {
  const Tensor t = timestep.dim() == 1 ? timestep.unsqueeze(1) : timestep;
  if (t.dim() != 2 || t.size(0) != B || (t.size(1) != 1 && t.size(1) != F))
    refuse(c10::str("timestep has shape ", timestep.sizes(), ", needed is [", B, "] or [", B, ", ", F, "]"));
  return t;
}

void Cosmos::condition(const Ctx& ctx, const Tensor& t, const Tensor& x, Shared& s) const {
  const auto D = options_.width();
  const Tensor waves = sinusoid(t, D).to(x.scalar_type());
  s.embedding = at::rms_norm(waves, {D}, ctx.value(time_norm_).to(x.scalar_type()), 1e-6);
  s.modulation = ctx.linear(at::silu(ctx.linear(waves, time_in_, 0, 0)), time_out_, 0, 0);
}

// No text, an all-zero text and a text of which no token may be seen are one and the same: unconditional.
void Cosmos::read_text(const Named<Tensor>& in, const Tensor& x, Shared& s) const {
  const auto B = x.size(0), size = options_.text_size;
  if (!in.has("text")) {
    s.text = at::zeros({B, 1, size}, x.options());
    return;
  }
  s.text = in["text"].to(x.scalar_type());
  if (s.text.dim() != 3 || s.text.size(0) != B || s.text.size(2) != size)
    refuse(c10::str("text has shape ", s.text.sizes(), ", needed is [", B, ", L, ", size, "]"));
  if (!in.has("text_mask")) return;
  const Tensor mask = in["text_mask"].to(at::kBool), some = mask.any(1, true);
  if (mask.sizes() != s.text.sizes().slice(0, 2))
    refuse(c10::str("text_mask has shape ", mask.sizes(), ", text ", s.text.sizes()));
  s.text = s.text * some.unsqueeze(-1).to(s.text.scalar_type());
  s.text_mask = mask | ~some;
}

Tensor Cosmos::learnt_position(const Ctx& ctx, kinora_seq seq, const Tensor& x) const {
  const Tensor table = ctx.table(seq, Place::stream);
  const int64_t columns[] = {KINORA_TOKEN_TIME, KINORA_TOKEN_ROW, KINORA_TOKEN_COL};
  Tensor sum;
  for (size_t i = 0; i < 3; ++i) {
    const Tensor one = at::embedding(ctx.value(position_[i]), table.select(2, columns[i]));
    sum = sum.defined() ? sum + one : one;
  }
  const auto type = sum.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor rms =
      at::linalg_vector_norm(sum, 2, {-1}, true, type) / std::sqrt(static_cast<double>(options_.width()));
  return (sum / (rms + 1e-6)).to(x.scalar_type());
}

Shared Cosmos::shared(const Ctx& ctx, const Named<Tensor>& in, kinora_seq seq, const Tensor& x,
                      const Tensor& timestep) const {
  const auto& c = options_;
  Shared s;
  condition(ctx, timestep, x, s);
  read_text(in, x, s);
  const bool paced = c.base_fps > 0 && in.has("fps");
  const Tensor rate = paced ? c.base_fps / in["fps"].to(at::kDouble) : Tensor();
  s.turns = rope_turns(ctx.table(seq, Place::inner), c.head_size, c.rope_scale, rate, x);
  if (c.learnable_pos_embed) s.position = learnt_position(ctx, seq, x);
  return s;
}

Tensor Cosmos::log_variance(const Ctx& ctx, const Tensor& timestep) const {
  const auto type = timestep.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor waves = at::addcmul(ctx.value(phases_).to(type), timestep.to(type).unsqueeze(-1),
                                   ctx.value(frequencies_).to(type))
                           .cos();
  return ctx.linear(waves * std::sqrt(2.0), variance_, 0, 0);
}

Tensor Cosmos::head(const Ctx& ctx, kinora_seq seq, const std::vector<Tensor>& in) const {
  const auto m = norm_out_(ctx, seq, in[1], in[2]);
  const Tensor x = ctx.linear(modulate(in[0], m[0], m[1], 1e-6), out_, 0, seq);
  if (in.size() == 3) return x;
  const Tensor variance = rows_of(ctx, seq, log_variance(ctx, in[3]).to(x.scalar_type()));
  return at::cat({x, variance.expand({x.size(0), x.size(1), 1})}, 2);
}

std::vector<Tensor> Cosmos::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const auto& c = options_;
  const Tensor latent = input(in);
  const auto F = latent.size(2) / c.patch_time, h = latent.size(3) / c.patch_space,
             w = latent.size(4) / c.patch_space;
  const Tensor timestep = checked_timestep(in["timestep"], latent.size(0), F);
  kinora_seq seq = 0;
  Tensor x = ctx.sequence(patchify(latent, c.patch_time, c.patch_space), F, h, w, seq);
  const Shared s = shared(ctx, in, seq, x, timestep);
  const bool masked = s.text_mask.defined(), placed = s.position.defined();

  using Tensors = std::vector<Tensor>;
  x = ctx.block(0, {x}, {}, 1,
                [this, ctx, seq](const Tensors& t) { return Tensors{ctx.linear(t[0], embed_, 0, seq)}; })[0];
  for (size_t i = 0; i < blocks_.size(); ++i)
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, s.pack(), 1,
                  [this, ctx, seq, i, masked, placed](const Tensors& t) {
                    return Tensors{blocks_[i](ctx, seq, t[0], Shared::unpack(t, 1, masked, placed))};
                  })[0];
  Tensors last{s.embedding, s.modulation};
  if (c.logvar) last.push_back(timestep);
  x = ctx.block(c.layers + 1, {x}, last, 1,
                [this, ctx, seq](const Tensors& t) { return Tensors{head(ctx, seq, t)}; })[0];
  x = ctx.leave(x, seq);
  if (!c.logvar) return {unpatchify(x, F, h, w, c.patch_time, c.patch_space)};
  // It left with the tokens, so its gradient reaches it once however many ranks hold them.
  const auto channels = x.size(2) - 1;
  const Tensor variance = x.select(2, channels).unflatten(1, {F, h * w}).select(2, 0);  // [B, F]
  return {unpatchify(x.narrow(2, 0, channels), F, h, w, c.patch_time, c.patch_space),
          in["timestep"].dim() == 1 ? variance.select(1, 0) : variance.narrow(1, 0, timestep.size(1))};
}

}  // namespace kinora::cosmos
