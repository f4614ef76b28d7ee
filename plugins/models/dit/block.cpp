#include "plugins/models/dit/block.hpp"

#include "kernels/torch/gelu.hpp"

namespace kinora::dit {

using at::Tensor;

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

}  // namespace kinora::dit
