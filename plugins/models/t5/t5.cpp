#include "plugins/models/t5/t5.hpp"

#include <cmath>

namespace kinora::t5 {
namespace {

using at::Tensor;

kinora_param declare(const Ctx& ctx, int64_t block, std::string name, std::vector<int64_t> shape, Init init,
                     Role role = Role::whole, int64_t quantum = 1) {
  Parameter p;
  p.name = std::move(name) + ".weight";
  p.shape = std::move(shape);
  p.init = init;
  p.role = role;
  p.block = block;
  p.quantum = quantum;
  return ctx.parameter(p);
}

// Standard deviation from the fan-in: the paper's initialisation, as in Mesh TensorFlow.
Init by(int64_t fan_in) { return Init::normal(1 / std::sqrt(static_cast<double>(fan_in))); }

// Heads are the second dimension of this table, and ROW splits the second dimension.
kinora_param declare_places(const Ctx& ctx, const Config& c, int64_t block, const std::string& layer) {
  return declare(ctx, block, layer + ".layer.0.SelfAttention.relative_attention_bias",
                 {c.relative_attention_num_buckets, c.num_heads}, by(c.d_model), Role::row);
}

Tensor rms_norm(const Ctx& ctx, const Tensor& x, kinora_param w, double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, ctx.value(w).to(x.scalar_type()), epsilon);
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

Layer::Layer(const Ctx& ctx, const Config& c, int64_t block, bool places)
    : c_(c), name_("encoder.block." + std::to_string(block - 1)), block_(block) {
  const std::string self = name_ + ".layer.0.SelfAttention.", mlp = name_ + ".layer.1.DenseReluDense.";
  const auto D = c.d_model, inner = c.inner(), F = c.d_ff;
  const Init from_keys = Init::normal(1 / std::sqrt(static_cast<double>(D) * static_cast<double>(c.d_kv)));
  attend_norm_ = declare(ctx, block, name_ + ".layer.0.layer_norm", {D}, Init::ones());
  q_ = declare(ctx, block, self + "q", {inner, D}, from_keys, Role::column, c.d_kv);
  k_ = declare(ctx, block, self + "k", {inner, D}, by(D), Role::column, c.d_kv);
  v_ = declare(ctx, block, self + "v", {inner, D}, by(D), Role::column, c.d_kv);
  o_ = declare(ctx, block, self + "o", {D, inner}, by(inner), Role::row, c.d_kv);
  if (places) places_ = declare_places(ctx, c, block, name_);
  mlp_norm_ = declare(ctx, block, name_ + ".layer.1.layer_norm", {D}, Init::ones());
  wi_0_ = declare(ctx, block, mlp + (c.gated() ? "wi_0" : "wi"), {F, D}, by(D), Role::column);
  if (c.gated()) wi_1_ = declare(ctx, block, mlp + "wi_1", {F, D}, by(D), Role::column);
  wo_ = declare(ctx, block, mlp + "wo", {D, F}, by(F), Role::row);
}

// Scores are not scaled: q's initialisation includes the scale.
Tensor Layer::attend(const Ctx& ctx, const Tensor& x, const Tensor& valid, const Tensor& bias) const {
  const auto heads = [&](kinora_param w) { return ctx.linear(x, w, 0, 0).unflatten(2, {-1, c_.d_kv}); };
  Attention<Tensor> how;
  how.name = name_.c_str();
  how.block = block_;
  how.scale = 1;
  how.kv_valid = valid;
  how.bias = bias;
  return ctx.linear(ctx.attention(heads(q_), heads(k_), heads(v_), how).flatten(2), o_, 0, 0);
}

Tensor Layer::mlp(const Ctx& ctx, const Tensor& x) const {
  const Tensor up = ctx.linear(x, wi_0_, 0, 0);
  if (!c_.gated()) return ctx.linear(at::relu(up), wo_, 0, 0);
  const Tensor gate = c_.feed_forward_proj == "gated-silu" ? at::silu(up) : at::gelu(up, "tanh");
  return ctx.linear(gate * ctx.linear(x, wi_1_, 0, 0), wo_, 0, 0);
}

Tensor Layer::operator()(const Ctx& ctx, const Tensor& in, const Tensor& valid, const Tensor& where) const {
  const Tensor bias = places_ ? bias_of(ctx.value(places_), where) : where;
  const Tensor x = in + attend(ctx, rms_norm(ctx, in, attend_norm_, c_.layer_norm_epsilon), valid, bias);
  return x + mlp(ctx, rms_norm(ctx, x, mlp_norm_, c_.layer_norm_epsilon));
}

Encoder::Encoder(std::string id, const Config& c, const Ctx& ctx, bool places_everywhere)
    : id_(std::move(id)), c_(checked(c, id_)) {
  words_ = declare(ctx, 0, "shared", {c_.vocab_size, c_.d_model}, Init::normal(1), Role::table);
  if (!places_everywhere) places_ = declare_places(ctx, c_, -1, "encoder.block.0");
  for (int64_t i = 1; i <= c_.num_layers; ++i) layers_.emplace_back(ctx, c_, i, places_everywhere);
  final_norm_ = declare(ctx, c_.num_layers + 1, "encoder.final_layer_norm", {c_.d_model}, Init::ones());
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
