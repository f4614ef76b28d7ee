#include "plugins/models/clip/layer.hpp"

namespace kinora::clip {
namespace {

using at::Tensor;

Linear linear(const Declare& declare, const std::string& name, int64_t out, int64_t in, Role role,
              int64_t quantum = 1) {
  return declare.biased(name, out, in, fan_in(in), role, quantum);
}

int64_t head_size(const Config& c) {
  if (c.hidden_size % c.num_attention_heads)
    throw Error(KINORA_ERROR_INVALID,
                "model/clip: num_attention_heads = " + std::to_string(c.num_attention_heads) +
                    " does not divide hidden_size = " + std::to_string(c.hidden_size));
  return c.hidden_size / c.num_attention_heads;
}

}  // namespace

Renames with_tower(const std::string& tower) {
  Renames out;
  for (const char* part : {"embeddings", "encoder", "final_layer_norm", "pre_layrnorm", "post_layernorm"})
    out.add(part, tower + "." + part);
  return out;
}

Layer::Layer(const Declare& declare, const Config& c)
    : heads_(declare, head_size(c)),
      quick_(c.hidden_act == "quick_gelu"),
      norm1_(declare.layer_norm("layer_norm1", c.hidden_size, c.layer_norm_eps)),
      norm2_(declare.layer_norm("layer_norm2", c.hidden_size, c.layer_norm_eps)) {
  const auto D = c.hidden_size, M = c.intermediate_size, d = heads_.size();
  q_ = linear(declare, "self_attn.q_proj", D, D, Role::column, d);
  k_ = linear(declare, "self_attn.k_proj", D, D, Role::column, d);
  v_ = linear(declare, "self_attn.v_proj", D, D, Role::column, d);
  out_ = linear(declare, "self_attn.out_proj", D, D, Role::row, d);
  mlp_ = {linear(declare, "mlp.fc1", M, D, Role::column), linear(declare, "mlp.fc2", D, M, Role::row)};
}

Tensor Layer::operator()(const Ctx& ctx, const Tensor& in, const Tensor& valid, const Tensor& bias) const {
  const Tensor normal = norm1_(ctx, in);
  const auto heads = [&](const Linear& by) { return heads_.split(by(ctx, normal)); };
  Attention<Tensor> how;
  how.kv_valid = valid;
  how.bias = bias;
  const Tensor x = in + out_(ctx, heads_.attend(ctx, 0, heads(q_), heads(k_), heads(v_), how));
  const auto activation = [this](const Tensor& up) {
    return quick_ ? up * at::sigmoid(1.702 * up) : at::gelu(up);
  };
  return x + mlp_(ctx, norm2_(ctx, x), 0, activation);
}

}  // namespace kinora::clip
