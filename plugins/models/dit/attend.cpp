#include "plugins/models/dit/attend.hpp"

#include <cmath>

#include "kernels/torch/gelu.hpp"
#include "kernels/torch/norm_rope.hpp"

namespace kinora::dit {

using at::Tensor;

Attend::Attend(const Declare& declare, std::string name, int64_t block, const Config& c)
    : group_(c.heads / c.groups()),
      head_size_(c.head_size),
      epsilon_(c.qk_norm_eps),
      norm_q_(declare("q_layernorm.weight", {c.head_size}, Init::ones())),
      norm_k_(declare("k_layernorm.weight", {c.head_size}, Init::ones())),
      out_(declare.linear("linear_proj", c.width(), c.width(), Role::row, group_ * c.head_size)),
      name_(std::move(name)),
      block_(block) {}

Tensor Attend::weight(const Ctx& ctx, kinora_param w, const Tensor& x) const {
  return ctx.value(w).to(x.scalar_type());
}

Tensor Attend::attend(const Ctx& ctx, kinora_seq seq, const Tensor& q, const Tensor& k, const Tensor& v,
                      Attention<Tensor> how) const {
  how.name = name_.c_str();
  how.block = block_;
  how.q_seq = seq;
  how.scale = 1 / std::sqrt(static_cast<double>(head_size_));
  const Tensor seen = ctx.attention(q.flatten(2, 3), k.flatten(2, 3), v.flatten(2, 3), how);
  return ctx.linear(seen.flatten(2), out_, 0, seq);
}

SelfAttend::SelfAttend(const Declare& declare, const std::string& name, int64_t block, const Config& c)
    : Attend(declare, name, block, c),
      qkv_(declare.linear("linear_qkv", c.groups() * (group_ + 2) * c.head_size, c.width(), Role::column,
                          (group_ + 2) * c.head_size)) {}

Tensor SelfAttend::operator()(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Turns& turns,
                              Over over) const {
  const Tensor qkv = ctx.linear(x, qkv_, 0, seq).unflatten(2, {-1, group_ + 2, head_size_});
  Attention<Tensor> how;
  how.kv_seq = seq;
  how.over = over;
  const auto heads = norm_rope_qkv(qkv, weight(ctx, norm_q_, qkv), weight(ctx, norm_k_, qkv),
                                   {turns.cos, turns.sin}, epsilon_);
  return attend(ctx, seq, heads.q, heads.k, heads.v, how);
}

CrossAttend::CrossAttend(const Declare& declare, const std::string& name, int64_t block, const Config& c)
    : Attend(declare, name, block, c),
      q_(declare.linear("linear_q", c.width(), c.width(), Role::column, group_ * c.head_size)),
      kv_(declare.linear("linear_kv", c.groups() * 2 * c.head_size, c.text_size, Role::column,
                         2 * c.head_size)) {}

Tensor CrossAttend::operator()(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Tensor& text,
                               const Tensor& mask, const Tensor& table) const {
  const Tensor q = ctx.linear(x, q_, 0, seq).unflatten(2, {-1, group_, head_size_});
  const Tensor kv = ctx.linear(text, kv_, 0, 0).unflatten(2, {-1, 2, head_size_});
  Attention<Tensor> how;
  how.kv_valid = mask;
  how.k_table = table;
  const auto seen = norm_rope_qkv(kv, {}, weight(ctx, norm_k_, kv), {}, epsilon_);
  return attend(ctx, seq, norm_rope(q, weight(ctx, norm_q_, q), {}, epsilon_), seen.k, seen.v, how);
}

Mlp::Mlp(const Declare& declare, const Config& c)
    : up_(declare.linear("linear_fc1", c.mlp(), c.width(), Role::column)),
      down_(declare.linear("linear_fc2", c.width(), c.mlp(), Role::row)) {}

Tensor Mlp::operator()(const Ctx& ctx, kinora_seq seq, const Tensor& x) const {
  return ctx.linear(kinora::gelu(ctx.linear(x, up_, 0, seq)), down_, 0, seq);
}

}  // namespace kinora::dit
