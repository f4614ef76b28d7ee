#include "plugins/models/dit/attend.hpp"

#include "kernels/torch/norm_rope.hpp"

namespace kinora::dit {

using at::Tensor;

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
                          (group_ + 2) * c.head_size)) {}

Tensor SelfAttend::operator()(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Turns& turns,
                              Over over) const {
  const Tensor qkv = qkv_(ctx, x, seq).unflatten(2, {-1, group_ + 2, heads_.size()});
  Attention<Tensor> how;
  how.kv_seq = seq;
  how.over = over;
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

FeedForward mlp(const Declare& declare, const Config& c) {
  const auto up = declare.linear("linear_fc1", c.mlp(), c.width(), Role::column);
  return {up, declare.linear("linear_fc2", c.width(), c.mlp(), Role::row)};
}

}  // namespace kinora::dit
