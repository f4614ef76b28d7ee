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
    position_.push_back(first(names[i], {sizes[i], c.width()}, Init::normal(0.02), Role::table));
}

Tensor Denoiser::input(const Named<Tensor>& in) const {
  Tensor x = in["latent"];
  if (in.has("condition_mask")) x = at::cat({x, in["condition_mask"].to(x.scalar_type())}, 1);
  if (x.dim() > 1 && x.size(1) != options_.in_channels)
    throw Error(KINORA_INVALID, c10::str(id_, ": latent and condition_mask have ", x.size(1),
                                         " channels, in_channels is ", options_.in_channels));
  return x;
}

void Denoiser::place(const Ctx& ctx, const Named<Tensor>& in, const Videos& videos,
                     const std::vector<kinora_seq>& seqs, const Tensor& x, Shared& to) const {
  const auto& c = options_;
  const auto R = to.active.size(1);
  for (size_t i = 0; i < seqs.size(); ++i) {
    size_t same = 0;
    while (seqs[same] != seqs[i]) ++same;
    if (same < i) {
      to.turns.push_back(to.turns[same]);
      if (R > 1) to.rows.push_back(to.rows[same]);
      continue;
    }
    const Tensor table = ctx.table(seqs[i], Place::inner);
    const Tensor rate =
        c.base_fps > 0 && in.has("fps") ? videos.rate(in["fps"], c.base_fps, table) : Tensor();
    to.turns.push_back(rope_turns(table, c.head_size, c.rope_scale, rate, x, 2));
    if (R > 1) to.rows.push_back(videos.row_of_token(ctx, seqs[i], R));
  }
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

Tensor Denoiser::head(const Ctx& ctx, kinora_seq from, kinora_seq seq, const Tensor& x, const Tensor& active,
                      const Tensor& row) const {
  kinora_seq to = seq;
  const Tensor tokens = from == seq ? x : ctx.reshard(x, from, Over::all, to);
  return ctx.linear(modulate(tokens, rows_of(final_(ctx, active), 0, row)), out_, out_bias_, to);
}

std::vector<Tensor> Denoiser::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const auto& c = options_;
  const Tensor latent = input(in);
  const Videos videos(in, latent, {c.patch_time, c.patch_space, c.patch_space}, id_);
  kinora_seq seq = 0;
  Tensor x =
      videos.patches(latent, [&](const Tensor& v) { return patchify(v, c.patch_time, c.patch_space); });
  x = videos.sequence(ctx, x, seq);
  if (c.learnable_pos_embed) videos.refuse_above(c.max_size, ctx.table(seq, Place::stream));
  Shared shared;
  condition_(ctx, in, x, videos, shared);
  const auto seqs = layouts(ctx, seq, x);
  place(ctx, in, videos, seqs, x, shared);
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
  Tensors last{shared.active};
  if (!shared.rows.empty()) last.push_back(shared.rows[0]);
  x = ctx.block(c.layers + 1, {x}, last, 1, [this, ctx, from, seq](const Tensors& t) {
    return Tensors{head(ctx, from, seq, t[0], t[1], t.size() > 2 ? t[2] : Tensor())};
  })[0];
  return {videos.latent(ctx.leave(x, seq), [&](const Tensor& t, int64_t F, int64_t h, int64_t w) {
    return unpatchify(t, F, h, w, c.patch_time, c.patch_space);
  })};
}

}  // namespace kinora::dit
