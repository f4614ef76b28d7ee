#include "plugins/models/dit/denoiser.hpp"

#include <ATen/ATen.h>

#include "kernels/torch/modulate.hpp"
#include "kinora/videos.hpp"

namespace kinora::dit {

using at::Tensor;

Denoiser::Denoiser(const Config& c, std::string id, const Ctx& ctx)
    : options_(c),
      id_(std::move(id)),
      condition_(Declare(ctx, "", -1), c, id_),
      final_(modulation(Declare(ctx, "final_layer.", c.layers + 1), c, 2)) {
  const Declare first(ctx, "", 0), last(ctx, "", c.layers + 1);
  embed_ = first.biased("x_embedder", c.width(), c.in_channels * c.patch());
  out_ = last.biased("final_layer_linear", c.out_channels * c.patch(), c.width(), Init::zeros());
  if (!c.learnable_pos_embed) return;
  // One learnt table an axis, added up: T + H + W rows instead of T * H * W.
  const int64_t sizes[] = {c.max_size[0] / c.patch_time, c.max_size[1] / c.patch_space,
                           c.max_size[2] / c.patch_space};
  const char* names[] = {"pos_embedder.emb_t.weight", "pos_embedder.emb_h.weight",
                         "pos_embedder.emb_w.weight"};
  for (size_t i = 0; i < 3; ++i)
    position_.push_back(first(names[i], {sizes[i], c.width()}, Init::normal(0.02), Role::table));
}

void Denoiser::place(const Ctx& ctx, const Named<Tensor>& in, const Videos& videos,
                     const std::vector<kinora_seq>& seqs, const Tensor& x, Shared& to) const {
  const auto& c = options_;
  const auto R = to.active.size(1);
  for (size_t i = 0; i < seqs.size(); ++i) {
    size_t same = 0;
    while (seqs[same] != seqs[i]) ++same;
    if (same < i) {
      to.turns[i] = to.turns[same], to.rows[i] = to.rows[same];
      continue;
    }
    // `inner`: the tokens that this rank's attention sees, however the sequence is divided.
    const Tensor table = ctx.table(seqs[i], Place::inner);
    const Tensor rate =
        c.base_fps > 0 && in.has("fps") ? videos.rate(in["fps"], c.base_fps, table) : Tensor();
    to.turns[i] = rope_turns(table, c.head_size, c.rope_scale, rate, x, 2);
    to.rows[i] = videos.row_of_token(ctx, seqs[i], R);
  }
}

Tensor Denoiser::embed(const Ctx& ctx, kinora_seq seq, const Tensor& patches) const {
  Tensor x = embed_(ctx, patches, seq);
  const int64_t columns[] = {KINORA_TOKEN_TIME, KINORA_TOKEN_ROW, KINORA_TOKEN_COL};
  for (size_t i = 0; i < position_.size(); ++i) {
    const Tensor places = ctx.table(seq, Place::stream).select(2, columns[i]);
    x = x + ctx.lookup(places, position_[i], seq).to(x.scalar_type());
  }
  return x;
}

Tensor Denoiser::head(const Ctx& ctx, kinora_seq from, kinora_seq seq, const Tensor& x, const Tensor& active,
                      const Tensor& row) const {
  kinora_seq to = seq;
  const Tensor tokens = from == seq ? x : ctx.reshard(x, from, Over::all, to);
  return out_(ctx, modulate(tokens, rows_of(final_.split(final_(ctx, active)), 0, row)), to);
}

std::vector<Tensor> Denoiser::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const auto& c = options_;
  const Tensor latent = latent_with(in, "condition_mask", c.in_channels, id_);
  const Videos::Size patch{c.patch_time, c.patch_space, c.patch_space};
  const Videos videos(in, latent, patch, id_);
  kinora_seq seq = 0;
  Tensor x =
      videos.patches(latent, [&](const Tensor& v) { return patchify(v, patch, PatchOrder::space_first); });
  x = videos.sequence(ctx, x, seq);
  if (c.learnable_pos_embed) videos.refuse_above(c.max_size, ctx.table(seq, Place::stream));
  Shared shared;
  condition_(ctx, in, x, videos, shared);
  const auto seqs = layouts(ctx, seq, x);
  place(ctx, in, videos, seqs, x, shared);
  const auto has = shared.has();

  using Tensors = std::vector<Tensor>;
  // Blocks 0, 1 ... layers, layers + 1: embedding, layers, head. Their numbers are those that pp and fsdp
  // divide by; parameters are declared with the same ones.
  x = ctx.block(0, {x}, {}, 1,
                [this, ctx, seq](const Tensors& t) { return Tensors{embed(ctx, seq, t[0])}; })[0];
  kinora_seq from = seq;
  for (size_t i = 0; i < static_cast<size_t>(c.layers); ++i, from = seqs.back())
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, shared.pack(), 1,
                  [this, ctx, i, from, has](const Tensors& t) {
                    return Tensors{layer(ctx, i, t[0], from, Shared::unpack(t, 1, has))};
                  })[0];
  Tensors last{shared.active};
  if (shared.rows[0].defined()) last.push_back(shared.rows[0]);
  x = ctx.block(c.layers + 1, {x}, last, 1, [this, ctx, from, seq](const Tensors& t) {
    return Tensors{head(ctx, from, seq, t[0], t[1], t.size() > 2 ? t[2] : Tensor())};
  })[0];
  return {videos.latent(ctx.gather(x, seq), [&](const Tensor& t, int64_t F, int64_t h, int64_t w) {
    return unpatchify(t, {F, h, w}, patch, PatchOrder::space_first);
  })};
}

Condition::Condition(const Declare& outside, const Config& c, const std::string& id)
    : options_(c),
      id_(id),
      time_{outside.biased("t_embedder.1.linear_1", c.width(), c.width(), Init::normal(0.02)),
            outside.biased("t_embedder.1.linear_2", c.width(), c.width(), Init::normal(0.02))},
      signals_(outside.context(), signals_of(c, id), c.width(), c.text_size, id) {}

void Condition::operator()(const Ctx& ctx, const Named<Tensor>& in, const Tensor& x, const Videos& videos,
                           Shared& to) const {
  // Outside the blocks: a pipeline computes it on every stage, or sends it (option `conditioning` of pp).
  const Tensor waves = sinusoid(videos.timestep(in), options_.width(), true).to(x.scalar_type());
  const Tensor level = videos.rows(time_(ctx, waves));
  // SiLU before AdaLN's linear layers, as in the code of DiT (arXiv 2212.09748), once for all blocks.
  to.active = at::silu(signals_.add(ctx, in, videos, x.scalar_type(), level));

  if (!options_.cross_attention) return;
  const Text text = unconditional_if_hidden(read_text(in, x, videos.count(), options_.text_size, id_));
  to.text = text.tokens, to.text_mask = text.mask;
  signals_.append(ctx, in, to.text, to.text_mask);
  if (videos.packed()) to.text_table = joined_text(videos, to.text, to.text_mask);
}

AdaLn modulation(const Declare& declare, const Config& c, int64_t parts) {
  return {declare.in("adaLN_modulation"), {"1", "2"}, c.width(), c.adaln_lora, parts};
}

Rows rows_of(const std::vector<Tensor>& parts, size_t first, const Tensor& row) {
  return {at_rows(parts[first], row), at_rows(parts[first + 1], row),
          first + 2 < parts.size() ? at_rows(parts[first + 2], row) : Tensor()};
}

Tensor modulate(const Tensor& x, const Rows& rows) {
  return kinora::modulate(x, rows.shift, rows.scale, 1e-6);
}

Tensor gated(const Tensor& x, const Tensor& y, const Rows& rows) { return kinora::gated(x, y, rows.gate); }

}  // namespace kinora::dit
