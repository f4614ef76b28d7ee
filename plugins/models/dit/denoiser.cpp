#include "plugins/models/dit/denoiser.hpp"

#include <ATen/ATen.h>

namespace kinora::dit {

using at::Tensor;

Tensor patchify(const Tensor& x, int64_t pt, int64_t p) {
  const auto B = x.size(0), C = x.size(1), F = x.size(2) / pt, h = x.size(3) / p, w = x.size(4) / p;
  return x.reshape({B, C, F, pt, h, p, w, p})
      .permute({0, 2, 4, 6, 5, 7, 3, 1})
      .reshape({B, F * h * w, p * p * pt * C});
}

Tensor unpatchify(const Tensor& x, int64_t F, int64_t h, int64_t w, int64_t pt, int64_t p) {
  const auto B = x.size(0), C = x.size(2) / (pt * p * p);
  return x.reshape({B, F, h, w, p, p, pt, C})
      .permute({0, 7, 1, 6, 2, 4, 3, 5})
      .reshape({B, C, F * pt, h * p, w * p});
}

Denoiser::Denoiser(const Config& c, std::string id, const Ctx& ctx)
    : options_(c),
      id_(std::move(id)),
      condition_(Declare(ctx, "", -1), c, id_),
      final_(Declare(ctx, "final_layer.", c.layers + 1), c.width(), c.adaln_lora, 2) {
  const Declare first(ctx, "", 0), last(ctx, "", c.layers + 1);
  embed_ = first.linear("x_embedder", c.width(), c.in_channels * c.patch());
  embed_bias_ = first.bias("x_embedder", c.width());
  out_ = last("final_layer_linear.weight", {c.out_channels * c.patch(), c.width()}, Init::zeros());
  out_bias_ = last.bias("final_layer_linear", c.out_channels * c.patch());
  if (!c.learnable_pos_embed) return;
  const int64_t sizes[] = {c.max_size[0] / c.patch_time, c.max_size[1] / c.patch_space,
                           c.max_size[2] / c.patch_space};
  const char* names[] = {"pos_embedder.emb_t.weight", "pos_embedder.emb_h.weight",
                         "pos_embedder.emb_w.weight"};
  for (size_t i = 0; i < 3; ++i)
    position_.push_back(first(names[i], {sizes[i], c.width()}, Init::normal(0.02)));
}

Tensor Denoiser::input(const Named<Tensor>& in) const {
  const auto refuse = [this](const std::string& what) { throw Error(KINORA_INVALID, id_ + ": " + what); };
  const auto& c = options_;
  Tensor x = in["latent"];
  if (x.dim() != 5 || !x.is_floating_point())
    refuse("latent must be a floating-point tensor [B, C, T, H, W]");
  if (in.has("condition_mask")) x = at::cat({x, in["condition_mask"].to(x.scalar_type())}, 1);
  const auto T = x.size(2), H = x.size(3), W = x.size(4);
  if (x.size(1) != c.in_channels)
    refuse(
        c10::str("latent and condition_mask have ", x.size(1), " channels, in_channels is ", c.in_channels));
  if (T % c.patch_time || H % c.patch_space || W % c.patch_space)
    refuse(c10::str("a latent of ", T, " x ", H, " x ", W, " does not divide into patches of ", c.patch_time,
                    " x ", c.patch_space, " x ", c.patch_space));
  if (c.learnable_pos_embed && (T > c.max_size[0] || H > c.max_size[1] || W > c.max_size[2]))
    refuse(c10::str("a latent of ", T, " x ", H, " x ", W, " is larger than max_size, ", c.max_size[0], " x ",
                    c.max_size[1], " x ", c.max_size[2], "; raise max_size"));
  return x;
}

std::vector<Turns> Denoiser::turns(const Ctx& ctx, const Named<Tensor>& in,
                                   const std::vector<kinora_seq>& seqs, const Tensor& x) const {
  const auto& c = options_;
  const bool paced = c.base_fps > 0 && in.has("fps");
  const Tensor rate = paced ? c.base_fps / in["fps"].flatten().to(at::kDouble) : Tensor();
  std::vector<Turns> out;
  for (size_t i = 0; i < seqs.size(); ++i) {
    size_t same = 0;
    while (seqs[same] != seqs[i]) ++same;
    out.push_back(same < i
                      ? out[same]
                      : rope_turns(ctx.table(seqs[i], Place::inner), c.head_size, c.rope_scale, rate, x, 2));
  }
  return out;
}

Tensor Denoiser::embed(const Ctx& ctx, kinora_seq seq, const Tensor& patches) const {
  Tensor x = ctx.linear(patches, embed_, embed_bias_, seq);
  const int64_t columns[] = {KINORA_TOKEN_TIME, KINORA_TOKEN_ROW, KINORA_TOKEN_COL};
  for (size_t i = 0; i < position_.size(); ++i) {
    const Tensor places = ctx.table(seq, Place::stream).select(2, columns[i]);
    x = x + at::embedding(ctx.value(position_[i]), places).to(x.scalar_type());
  }
  return x;
}

Tensor Denoiser::head(const Ctx& ctx, kinora_seq from, kinora_seq seq, const Tensor& x,
                      const Tensor& active) const {
  kinora_seq to = seq;
  const Tensor tokens = from == seq ? x : ctx.reshard(x, from, Over::all, to);
  return ctx.linear(modulate(tokens, rows_of(ctx, to, final_(ctx, active), 0)), out_, out_bias_, to);
}

std::vector<Tensor> Denoiser::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const auto& c = options_;
  const Tensor latent = input(in);
  const auto F = latent.size(2) / c.patch_time, h = latent.size(3) / c.patch_space,
             w = latent.size(4) / c.patch_space;
  kinora_seq seq = 0;
  Tensor x = ctx.sequence(patchify(latent, c.patch_time, c.patch_space), F, h, w, seq);
  Shared shared;
  condition_(ctx, in, x, F, shared);
  const auto seqs = layouts(ctx, seq, x);
  shared.turns = turns(ctx, in, seqs, x);
  const auto form = shared.form();

  using Tensors = std::vector<Tensor>;
  x = ctx.block(0, {x}, {}, 1,
                [this, ctx, seq](const Tensors& t) { return Tensors{embed(ctx, seq, t[0])}; })[0];
  kinora_seq from = seq;
  for (size_t i = 0; i < static_cast<size_t>(c.layers); ++i, from = seqs.back())
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, shared.pack(), 1,
                  [this, ctx, i, from, form](const Tensors& t) {
                    return Tensors{layer(ctx, i, t[0], from, Shared::unpack(t, 1, form))};
                  })[0];
  x = ctx.block(c.layers + 1, {x}, {shared.active}, 1, [this, ctx, from, seq](const Tensors& t) {
    return Tensors{head(ctx, from, seq, t[0], t[1])};
  })[0];
  return {unpatchify(ctx.leave(x, seq), F, h, w, c.patch_time, c.patch_space)};
}

}  // namespace kinora::dit
