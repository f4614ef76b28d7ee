#include "plugins/models/dit/attend.hpp"

#include <cmath>

namespace kinora::dit {

using at::Tensor;

Attend::Attend(const Declare& declare, std::string name, int64_t block, const Config& c)
    : group_(c.heads / c.groups()),
      head_size_(c.head_size),
      norm_q_(declare("q_layernorm.weight", {c.head_size}, Init::ones())),
      norm_k_(declare("k_layernorm.weight", {c.head_size}, Init::ones())),
      out_(declare.linear("linear_proj", c.width(), c.width(), Role::row, group_ * c.head_size)),
      name_(std::move(name)),
      block_(block),
      epsilon_(c.qk_norm_eps) {}

Tensor Attend::norm_rope(const Ctx& ctx, const Tensor& x, kinora_param w, const Turns* turns) const {
  const Tensor normed = at::rms_norm(x, {head_size_}, ctx.value(w).to(x.scalar_type()), epsilon_);
  return turns ? rope(normed, *turns) : normed;
}

Tensor Attend::attend(const Ctx& ctx, kinora_seq seq, const Tensor& q, const Tensor& k, const Tensor& v,
                      Attention<Tensor> how) const {
  how.name = name_.c_str();
  how.block = block_;
  how.q_seq = seq;
  how.scale = 1 / std::sqrt(static_cast<double>(head_size_));
  const auto of_queries = [&](const Tensor& t) { return t.expand({-1, -1, -1, group_, -1}).flatten(2, 3); };
  return ctx.linear(ctx.attention(q.flatten(2, 3), of_queries(k), of_queries(v), how).flatten(2), out_, 0,
                    seq);
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
  return attend(ctx, seq, norm_rope(ctx, qkv.narrow(3, 0, group_), norm_q_, &turns),
                norm_rope(ctx, qkv.narrow(3, group_, 1), norm_k_, &turns), qkv.narrow(3, group_ + 1, 1), how);
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
  return attend(ctx, seq, norm_rope(ctx, q, norm_q_, nullptr),
                norm_rope(ctx, kv.narrow(3, 0, 1), norm_k_, nullptr), kv.narrow(3, 1, 1), how);
}

Mlp::Mlp(const Declare& declare, const Config& c)
    : up_(declare.linear("linear_fc1", c.mlp(), c.width(), Role::column)),
      down_(declare.linear("linear_fc2", c.width(), c.mlp(), Role::row)) {}

Tensor Mlp::operator()(const Ctx& ctx, kinora_seq seq, const Tensor& x) const {
  return ctx.linear(at::gelu(ctx.linear(x, up_, 0, seq)), down_, 0, seq);
}

}  // namespace kinora::dit
