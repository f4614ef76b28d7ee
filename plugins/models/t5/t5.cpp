#include "plugins/models/t5/t5.hpp"

#include <cmath>

namespace kinora::t5 {
namespace {

using at::Tensor;

// Heads are the second dimension of this table, and ROW splits the second dimension.
kinora_param declare_places(const Declare& layer, const Config& c) {
  return layer.weight("layer.0.SelfAttention.relative_attention_bias",
                      {c.relative_attention_num_buckets, c.num_heads}, fan_in(c.d_model), Role::row);
}

// Distance of key j from query i in buckets: half of them for each direction; of these, half represent single
// distances and half grow logarithmically, in float32 as published. int64 [L, L]
Tensor buckets(int64_t L, const Config& c, const at::Device& device) {
  const int64_t half = c.relative_attention_num_buckets / 2, exact = half / 2;
  const Tensor at = at::arange(L, at::TensorOptions(at::kLong).device(device));
  const Tensor distance = at.unsqueeze(0) - at.unsqueeze(1), far = distance.abs();
  const double span =
      std::log(static_cast<double>(c.relative_attention_max_distance) / static_cast<double>(exact));
  const Tensor grown = (at::log(far.to(at::kFloat) / exact) / span * (half - exact)).to(at::kLong);
  return (distance > 0).to(at::kLong) * half +
         at::where(far < exact, far, (exact + grown.clamp_min(0)).clamp_max(half - 1));
}

Tensor bias_of(const Tensor& places, const Tensor& buckets) {
  return at::embedding(places, buckets).permute({2, 0, 1}).unsqueeze(0);
}

void check_inputs(const Tensor& ids, const Tensor& mask, const std::string& id) {
  if (ids.dim() != 2 || (mask.defined() && ids.sizes() != mask.sizes()))
    throw Error(KINORA_INVALID,
                c10::str(id, ": input_ids and attention_mask must both be [B, L], found ", ids.sizes(),
                         " and ", mask.defined() ? mask.sizes() : at::IntArrayRef()));
}

}  // namespace

// Standard deviations are from the fan-in: the paper's initialisation, as in Mesh TensorFlow. Scores are not
// scaled: q's includes the scale.
Layer::Layer(const Declare& declare, const Config& c, bool places) : c_(c), heads_(declare, c.d_kv, 1) {
  const auto self = declare.in("layer.0.SelfAttention"), mlp = declare.in("layer.1.DenseReluDense");
  const auto D = c.d_model, inner = c.inner(), F = c.d_ff, d = c.d_kv;
  attend_norm_ = declare.weight("layer.0.layer_norm", {D}, Init::ones());
  q_ = self.linear("q", inner, D, fan_in(D * d), Role::column, d);
  k_ = self.linear("k", inner, D, fan_in(D), Role::column, d);
  v_ = self.linear("v", inner, D, fan_in(D), Role::column, d);
  o_ = self.linear("o", D, inner, fan_in(inner), Role::row, d);
  if (places) places_ = declare_places(declare, c);
  mlp_norm_ = declare.weight("layer.1.layer_norm", {D}, Init::ones());
  wi_0_ = mlp.linear(c.gated() ? "wi_0" : "wi", F, D, fan_in(D), Role::column);
  if (c.gated()) wi_1_ = mlp.linear("wi_1", F, D, fan_in(D), Role::column);
  wo_ = mlp.linear("wo", D, F, fan_in(F), Role::row);
}

Tensor Layer::attend(const Ctx& ctx, const Tensor& x, const Tensor& valid, const Tensor& bias) const {
  const auto heads = [&](const Linear& by) { return heads_.split(by(ctx, x)); };
  Attention<Tensor> how;
  how.kv_valid = valid;
  how.bias = bias;
  return o_(ctx, heads_.attend(ctx, 0, heads(q_), heads(k_), heads(v_), how));
}

Tensor Layer::mlp(const Ctx& ctx, const Tensor& x) const {
  const Tensor up = wi_0_(ctx, x);
  if (!c_.gated()) return wo_(ctx, at::relu(up));
  const Tensor gate = c_.feed_forward_proj == "gated-silu" ? at::silu(up) : at::gelu(up, "tanh");
  return wo_(ctx, gate * wi_1_(ctx, x));
}

Tensor Layer::operator()(const Ctx& ctx, const Tensor& in, const Tensor& valid, const Tensor& where) const {
  const Tensor bias = places_ ? bias_of(ctx.value(places_), where) : where;
  const Tensor x = in + attend(ctx, rms_norm(ctx, in, attend_norm_, c_.layer_norm_epsilon), valid, bias);
  return x + mlp(ctx, rms_norm(ctx, x, mlp_norm_, c_.layer_norm_epsilon));
}

Encoder::Encoder(std::string id, const Config& c, const Ctx& ctx, bool places_everywhere)
    : id_(std::move(id)), c_(checked(c, id_)) {
  words_ = Declare(ctx, "", 0).weight("shared", {c_.vocab_size, c_.d_model}, Init::normal(1), Role::table);
  if (!places_everywhere) places_ = declare_places(Declare(ctx, "encoder.block.0.", -1), c_);
  for (int64_t i = 1; i <= c_.num_layers; ++i) layers_.emplace_back(ctx, c_, i, places_everywhere);
  final_norm_ =
      Declare(ctx, "encoder.", c_.num_layers + 1).weight("final_layer_norm", {c_.d_model}, Init::ones());
}

std::vector<Tensor> Encoder::forward(const Ctx& ctx, const Named<Tensor>& in) {
  const Tensor &ids = in["input_ids"], mask = in.get("attention_mask");
  check_inputs(ids, mask, id_);
  const Tensor valid = mask.defined() ? mask != 0 : at::ones_like(ids, at::kBool),
               seen = valid | ~valid.any(1, true);  // an empty text attends to its padding, not to NaN
  Tensor where = buckets(ids.size(1), c_, ids.device());
  if (places_) where = bias_of(ctx.value(places_), where);

  using Tensors = std::vector<Tensor>;
  Tensor x = ctx.block(0, {ids}, {}, 1, [this, ctx](const Tensors& t) {
    return Tensors{at::embedding(ctx.value(words_), t[0])};
  })[0];
  for (size_t i = 0; i < layers_.size(); ++i)
    x = ctx.block(static_cast<int64_t>(i) + 1, {x}, {seen, where}, 1,
                  [this, ctx, i](const Tensors& t) { return Tensors{layers_[i](ctx, t[0], t[1], t[2])}; })[0];
  return ctx.block(c_.num_layers + 1, {x}, {}, 1, [this, ctx](const Tensors& t) {
    return Tensors{rms_norm(ctx, t[0], final_norm_, c_.layer_norm_epsilon)};
  });
}

}  // namespace kinora::t5
