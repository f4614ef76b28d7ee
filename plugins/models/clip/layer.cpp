#include "plugins/models/clip/layer.hpp"

#include <cmath>

namespace kinora::clip {
namespace {

using at::Tensor;

// The bias of a ROW linear is added once, so it is not split.
Linear linear(const Ctx& ctx, int64_t block, const std::string& name, int64_t out, int64_t in, Role role,
              int64_t quantum = 1) {
  const bool split = role == Role::column;
  return {declare(ctx, block, name + ".weight", {out, in},
                  Init::normal(1 / std::sqrt(static_cast<double>(in))), role, quantum),
          declare(ctx, block, name + ".bias", {out}, Init::zeros(), split ? role : Role::whole,
                  split ? quantum : 1)};
}

std::string name_of(const std::string& tower, int64_t block) {
  return tower + "encoder.layers." + std::to_string(block - 1);
}

int64_t head_size(const Config& c) {
  if (c.hidden_size % c.num_attention_heads)
    throw Error(KINORA_INVALID, "model/clip: num_attention_heads = " + std::to_string(c.num_attention_heads) +
                                    " does not divide hidden_size = " + std::to_string(c.hidden_size));
  return c.hidden_size / c.num_attention_heads;
}

}  // namespace

std::string with_tower(const std::string& name, const std::string& tower) {
  for (const char* part :
       {"embeddings.", "encoder.", "final_layer_norm.", "pre_layrnorm.", "post_layernorm."})
    if (name.starts_with(part)) return tower + name;
  return name;
}

std::string without_tower(const std::string& name, const std::string& tower) {
  return name.starts_with(tower) ? name.substr(tower.size()) : name;
}

kinora_param declare(const Ctx& ctx, int64_t block, std::string name, std::vector<int64_t> shape, Init init,
                     Role role, int64_t quantum) {
  Parameter p;
  p.name = std::move(name);
  p.shape = std::move(shape);
  p.init = init;
  p.role = role;
  p.block = block;
  p.quantum = quantum;
  return ctx.parameter(p);
}

Norm::Norm(const Ctx& ctx, int64_t block, const std::string& name, const Config& c)
    : weight(declare(ctx, block, name + ".weight", {c.hidden_size}, Init::ones())),
      bias(declare(ctx, block, name + ".bias", {c.hidden_size}, Init::zeros())),
      epsilon(c.layer_norm_eps) {}

Tensor Norm::operator()(const Ctx& ctx, const Tensor& x) const {
  const auto type = x.scalar_type();
  return at::layer_norm(x, {x.size(-1)}, ctx.value(weight).to(type), ctx.value(bias).to(type), epsilon);
}

Layer::Layer(const Ctx& ctx, const Config& c, const std::string& tower, int64_t block)
    : name_(name_of(tower, block)),
      block_(block),
      head_size_(head_size(c)),
      quick_(c.hidden_act == "quick_gelu"),
      norm1_(ctx, block, name_ + ".layer_norm1", c),
      norm2_(ctx, block, name_ + ".layer_norm2", c) {
  const auto D = c.hidden_size, M = c.intermediate_size;
  const std::string self = name_ + ".self_attn.", mlp = name_ + ".mlp.";
  q_ = linear(ctx, block, self + "q_proj", D, D, Role::column, head_size_);
  k_ = linear(ctx, block, self + "k_proj", D, D, Role::column, head_size_);
  v_ = linear(ctx, block, self + "v_proj", D, D, Role::column, head_size_);
  out_ = linear(ctx, block, self + "out_proj", D, D, Role::row, head_size_);
  up_ = linear(ctx, block, mlp + "fc1", M, D, Role::column);
  down_ = linear(ctx, block, mlp + "fc2", D, M, Role::row);
}

Tensor Layer::operator()(const Ctx& ctx, const Tensor& in, const Tensor& valid, const Tensor& bias) const {
  const auto apply = [&](const Linear& l, const Tensor& x) { return ctx.linear(x, l.weight, l.bias, 0); };
  const Tensor normal = norm1_(ctx, in);
  const auto heads = [&](const Linear& l) { return apply(l, normal).unflatten(2, {-1, head_size_}); };
  Attention<Tensor> how;
  how.name = name_.c_str();
  how.block = block_;
  how.scale = 1 / std::sqrt(static_cast<double>(head_size_));
  how.kv_valid = valid;
  how.bias = bias;
  const Tensor x = in + apply(out_, ctx.attention(heads(q_), heads(k_), heads(v_), how).flatten(2));
  const Tensor up = apply(up_, norm2_(ctx, x));
  return x + apply(down_, quick_ ? up * at::sigmoid(1.702 * up) : at::gelu(up));
}

}  // namespace kinora::clip
