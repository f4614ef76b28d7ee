// model/dit and model/stdit: video diffusion transformers as NeMo builds them (arXiv 2503.12964,
// sections 4.2, 4.5 and 4.6).
#include <memory>
#include <vector>

#include "kernels/torch/gelu.hpp"
#include "kernels/torch/norm_rope.hpp"
#include "kinora/layers.hpp"
#include "kinora/plugin.hpp"
#include "kinora/rope.hpp"
#include "plugins/models/dit/config.hpp"
#include "plugins/models/dit/denoiser.hpp"

namespace kinora::dit {

using at::Tensor;

// Attention with an RMSNorm of each head's queries and keys, and optionally fewer key heads than query heads.
//
// B batch, S local tokens, L text tokens, D width, G groups (heads of keys), r query heads per group, d head
// size. The fused projections keep a group together, as Megatron's do: a group's r query heads, its key, its
// value; so splitting by whole groups splits the attention. This class is common to self- and cross-attention
// after their projections.
class Attend {
 protected:
  Attend(const Declare& declare, const Config& c);
  // q, k, v [B, S or L, G, r or 1, d] after norms -> [B, S, D]
  at::Tensor attend(const Ctx& ctx, kinora_seq seq, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const Attention<at::Tensor>& how) const;

  Heads heads_;
  int64_t group_;  // r
  double epsilon_;
  kinora_param norm_q_, norm_k_;

 private:
  Linear out_;
};

class SelfAttend : Attend {
 public:
  SelfAttend(const Declare& declare, const Config& c);
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Turns& turns,
                        Over over = Over::all) const;

 private:
  Linear qkv_;
  Rope rope_;
};

class CrossAttend : Attend {
 public:
  CrossAttend(const Declare& declare, const Config& c);
  // text [B, L, text_size]; mask [B, L] bool, undefined: all; table [1, L, ...], for a packed row.
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const at::Tensor& text,
                        const at::Tensor& mask, const at::Tensor& table) const;

 private:
  Linear q_, kv_;
};

Attend::Attend(const Declare& declare, const Config& c)
    : heads_(declare, c.head_size),
      group_(c.heads / c.groups()),
      epsilon_(c.qk_norm_eps),
      norm_q_(declare.weight("q_layernorm", {c.head_size}, Init::ones())),
      norm_k_(declare.weight("k_layernorm", {c.head_size}, Init::ones())),
      out_(declare.linear("linear_proj", c.width(), c.width(), Role::row, group_ * c.head_size)) {}

Tensor Attend::attend(const Ctx& ctx, kinora_seq seq, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Attention<Tensor>& how) const {
  return out_(ctx, heads_.attend(ctx, seq, q.flatten(2, 3), k.flatten(2, 3), v.flatten(2, 3), how), seq);
}

SelfAttend::SelfAttend(const Declare& declare, const Config& c)
    : Attend(declare, c),
      qkv_(declare.linear("linear_qkv", c.groups() * (group_ + 2) * c.head_size, c.width(), Role::column,
                          (group_ + 2) * c.head_size)),
      rope_(video_rope(KINORA_ROPE_HALVES, c.head_size, c.rope_scale)) {}

Tensor SelfAttend::operator()(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Turns& turns,
                              Over over) const {
  const Tensor qkv = qkv_(ctx, x, seq).unflatten(2, {-1, group_ + 2, heads_.size()});
  kinora_rope rope{};
  Attention<Tensor> how;
  how.kv_seq = seq;
  how.over = over;
  how.rope = rope_.of(turns, rope);
  const auto heads = norm_rope_qkv(qkv, value_as(ctx, norm_q_, qkv), value_as(ctx, norm_k_, qkv),
                                   {turns.cos, turns.sin}, epsilon_);
  return attend(ctx, seq, heads.q, heads.k, heads.v, how);
}

CrossAttend::CrossAttend(const Declare& declare, const Config& c)
    : Attend(declare, c),
      q_(declare.linear("linear_q", c.width(), c.width(), Role::column, group_ * c.head_size)),
      kv_(declare.linear("linear_kv", c.groups() * 2 * c.head_size, c.text_size, Role::column,
                         2 * c.head_size)) {}

Tensor CrossAttend::operator()(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Tensor& text,
                               const Tensor& mask, const Tensor& table) const {
  const Tensor q = q_(ctx, x, seq).unflatten(2, {-1, group_, heads_.size()});
  const Tensor kv = kv_(ctx, text).unflatten(2, {-1, 2, heads_.size()});
  Attention<Tensor> how;
  how.kv_valid = mask;
  how.k_table = table;
  const auto seen = norm_rope_qkv(kv, {}, value_as(ctx, norm_k_, kv), {}, epsilon_);
  return attend(ctx, seq, norm_rope(q, value_as(ctx, norm_q_, q), {}, epsilon_), seen.k, seen.v, how);
}

// The MLP's two products; GELU is between them.
FeedForward mlp(const Declare& declare, const Config& c) {
  const auto up = declare.linear("linear_fc1", c.mlp(), c.width(), Role::column);
  return {up, declare.linear("linear_fc2", c.width(), c.mlp(), Role::row)};
}

// Full attention, cross-attention to the text, MLP. One modulation per layer: a shift, a scale and a gate for
// each.
class Layer {
 public:
  Layer(const Declare& declare, const Config& c);
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, at::Tensor x, const Shared& s) const;

 private:
  AdaLn modulation_;
  SelfAttend full_;
  std::unique_ptr<CrossAttend> cross_;  // null: no text
  FeedForward mlp_;
};

class Dit final : public Denoiser {
 public:
  using Options = Config;
  static void describe(Describe<Options>& d);
  Dit(const Options& o, const Ctx& ctx);

 protected:
  at::Tensor layer(const Ctx& ctx, size_t i, const at::Tensor& x, kinora_seq from,
                   const Shared& s) const override;

 private:
  std::vector<Layer> layers_;
};

// Spatial attention within each frame, full attention, cross-attention, temporal attention of each position,
// MLP, with one shift, scale and gate for all of them. The stream is resharded to the cheapest layout for
// each: at most three times per layer, because a layer returns its tokens in the layout of the temporal
// attention.
class StLayer {
 public:
  StLayer(const Declare& declare, const StConfig& c);
  // The layouts of s.turns and s.rows.
  enum Layout : size_t { all, space, time };
  at::Tensor operator()(const Ctx& ctx, kinora_seq from, at::Tensor x, const Shared& s) const;

 private:
  AdaLn modulation_;
  SelfAttend spatial_, temporal_;
  std::unique_ptr<SelfAttend> full_;
  std::unique_ptr<CrossAttend> cross_;
  FeedForward mlp_;
};

class StDit final : public Denoiser {
 public:
  using Options = StConfig;
  static void describe(Describe<Options>& d);
  StDit(const Options& o, const Ctx& ctx);

 protected:
  std::vector<kinora_seq> layouts(const Ctx& ctx, kinora_seq seq, const at::Tensor& x) const override;
  at::Tensor layer(const Ctx& ctx, size_t i, const at::Tensor& x, kinora_seq from,
                   const Shared& s) const override;

 private:
  bool full_;
  std::vector<StLayer> layers_;
};

namespace {

constexpr auto gelu = [](const Tensor& x) { return kinora::gelu(x); };

template <class Options>
Options checked(Options o, const std::string& id) {
  check(o, id);
  return o;
}

std::unique_ptr<CrossAttend> cross_of(const Declare& declare, const Config& c) {
  if (!c.cross_attention) return nullptr;
  return std::make_unique<CrossAttend>(declare.in("cross_attention"), c);
}

}  // namespace

Layer::Layer(const Declare& declare, const Config& c)
    : modulation_(modulation(declare.in("adaLN"), c, c.cross_attention ? 9 : 6)),
      full_(declare.in("full_self_attention"), c),
      cross_(cross_of(declare, c)),
      mlp_(mlp(declare.in("mlp"), c)) {}

Tensor Layer::operator()(const Ctx& ctx, kinora_seq seq, Tensor x, const Shared& s) const {
  const auto parts = modulation_.split(modulation_(ctx, s.active));
  const Tensor row = s.rows[0];
  Rows rows = rows_of(parts, 0, row);
  x = gated(x, full_(ctx, seq, modulate(x, rows), s.turns[0]), rows);
  if (cross_) {
    rows = rows_of(parts, 3, row);
    x = gated(x, (*cross_)(ctx, seq, modulate(x, rows), s.text, s.text_mask, s.text_table), rows);
  }
  rows = rows_of(parts, parts.size() - 3, row);
  return gated(x, mlp_(ctx, modulate(x, rows), seq, gelu), rows);
}

void Dit::describe(Describe<Options>& d) {
  d.name("dit").help(
      "Video diffusion transformer of NeMo: full attention, cross-attention to text, MLP, AdaLN-LoRA, 3D "
      "RoPE");
  dit::describe(d);
}

Dit::Dit(const Options& o, const Ctx& ctx) : Denoiser(checked(o, "model/dit"), "model/dit", ctx) {
  for (int64_t i = 0; i < options_.layers; ++i) layers_.emplace_back(layer_declare(ctx, i), options_);
}

Tensor Dit::layer(const Ctx& ctx, size_t i, const Tensor& x, kinora_seq from, const Shared& s) const {
  return layers_[i](ctx, from, x, s);
}

StLayer::StLayer(const Declare& declare, const StConfig& c)
    : modulation_(modulation(declare.in("adaLN"), c, 3)),
      spatial_(declare.in("spatial_self_attention"), c),
      temporal_(declare.in("temporal_self_attention"), c),
      cross_(cross_of(declare, c)),
      mlp_(mlp(declare.in("mlp"), c)) {
  if (c.full_attention) full_ = std::make_unique<SelfAttend>(declare.in("full_self_attention"), c);
}

Tensor StLayer::operator()(const Ctx& ctx, kinora_seq from, Tensor x, const Shared& s) const {
  const auto parts = modulation_.split(modulation_(ctx, s.active));
  kinora_seq seq = 0;
  Rows rows;
  const auto move = [&](Over over, Layout layout) {
    x = ctx.reshard(x, from, over, seq);
    from = seq;
    rows = rows_of(parts, 0, s.rows[layout]);
  };
  move(Over::space, space);
  x = gated(x, spatial_(ctx, seq, modulate(x, rows), s.turns[space], Over::space), rows);
  if (full_) {
    move(Over::all, all);
    x = gated(x, (*full_)(ctx, seq, modulate(x, rows), s.turns[all]), rows);
  }
  if (cross_) x = gated(x, (*cross_)(ctx, seq, modulate(x, rows), s.text, s.text_mask, s.text_table), rows);
  move(Over::time, time);
  x = gated(x, temporal_(ctx, seq, modulate(x, rows), s.turns[time], Over::time), rows);
  return gated(x, mlp_(ctx, modulate(x, rows), seq, gelu), rows);
}

void StDit::describe(Describe<Options>& d) {
  d.name("stdit").help(
      "Spatial-temporal diffusion transformer: spatial, full, cross- and temporal attention, MLP, one shared "
      "AdaLN-LoRA, 3D RoPE");
  dit::describe(d);
  d.option("full_attention", &StConfig::full_attention)
      .help("additional attention over all tokens, between spatial and cross-attention");
}

StDit::StDit(const Options& o, const Ctx& ctx)
    : Denoiser(checked(o, "model/stdit"), "model/stdit", ctx), full_(o.full_attention) {
  StConfig c{options_, full_};
  for (int64_t i = 0; i < c.layers; ++i) layers_.emplace_back(layer_declare(ctx, i), c);
}

// Tokens without channels take the path of a layer, to find the names of the layouts.
std::vector<kinora_seq> StDit::layouts(const Ctx& ctx, kinora_seq seq, const Tensor& x) const {
  kinora_seq space = seq, time = seq;
  const Tensor probe = ctx.reshard(x.detach().narrow(2, 0, 0), seq, Over::space, space);
  kinora_seq before = space;
  const Tensor there = full_ ? ctx.reshard(probe, space, Over::all, before) : probe;
  ctx.reshard(there, before, Over::time, time);
  return {seq, space, time};
}

Tensor StDit::layer(const Ctx& ctx, size_t i, const Tensor& x, kinora_seq from, const Shared& s) const {
  return layers_[i](ctx, from, x, s);
}

KINORA_COMPONENT(Dit)
KINORA_COMPONENT(StDit)
KINORA_PLUGIN(Dit, StDit)

}  // namespace kinora::dit
