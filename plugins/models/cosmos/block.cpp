#include "plugins/models/cosmos/block.hpp"

#include "kernels/torch/gelu.hpp"
#include "kernels/torch/modulate.hpp"
#include "kernels/torch/norm_rope.hpp"

namespace kinora::cosmos {

using at::Tensor;

Attend::Attend(const Declare& declare, const Config& c, int64_t kv_width)
    : heads_(declare, c.head_size),
      q_(declare.linear("to_q", c.width(), c.width(), Role::column, c.head_size)),
      k_(declare.linear("to_k", c.width(), kv_width, Role::column, c.head_size)),
      v_(declare.linear("to_v", c.width(), kv_width, Role::column, c.head_size)),
      out_(declare.linear("to_out.0", c.width(), c.width(), Role::row, c.head_size)),
      norm_q_(declare.weight("norm_q", {c.head_size}, Init::ones())),
      norm_k_(declare.weight("norm_k", {c.head_size}, Init::ones())),
      epsilon_(c.qk_norm_eps),
      rope_(video_rope(KINORA_ROPE_HALVES, c.head_size, c.rope_scale)) {}

Tensor Attend::head_norm(const Ctx& ctx, const Tensor& x, kinora_param w, const Turns& turns) const {
  return norm_rope(x, value_as(ctx, w, x), {turns.cos, turns.sin}, epsilon_);
}

Tensor Attend::self(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Turns& turns) const {
  const Tensor q = head_norm(ctx, heads_.split(q_(ctx, x, seq)), norm_q_, turns);
  const Tensor k = head_norm(ctx, heads_.split(k_(ctx, x, seq)), norm_k_, turns);
  kinora_rope rope{};
  Attention<Tensor> how;
  how.kv_seq = seq;
  how.rope = rope_.of(turns, rope);
  return out_(ctx, heads_.attend(ctx, seq, q, k, heads_.split(v_(ctx, x, seq)), how), seq);
}

Tensor Attend::cross(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Shared& s) const {
  const Tensor q = head_norm(ctx, heads_.split(q_(ctx, x, seq)), norm_q_, {});
  const Tensor k = head_norm(ctx, heads_.split(k_(ctx, s.text)), norm_k_, {});
  Attention<Tensor> how;
  how.kv_valid = s.text_mask;
  how.k_table = s.text_table;
  return out_(ctx, heads_.attend(ctx, seq, q, k, heads_.split(v_(ctx, s.text)), how), seq);
}

Block::Block(const Declare& declare, const Config& c)
    : norm1_(declare.in("norm1"), c, 3),
      norm2_(declare.in("norm2"), c, 3),
      norm3_(declare.in("norm3"), c, 3),
      self_(declare.in("attn1"), c, c.width()),
      cross_(declare.in("attn2"), c, c.text_size),
      mlp_{declare.linear("ff.net.0.proj", c.mlp(), c.width(), Role::column),
           declare.linear("ff.net.2", c.width(), c.mlp(), Role::row)} {}

Tensor Block::operator()(const Ctx& ctx, kinora_seq seq, Tensor x, const Shared& s) const {
  if (s.position.defined()) x = x + s.position;
  const auto modulated = [&](const std::vector<Tensor>& m) { return modulate(x, m[0], m[1], 1e-6); };
  auto m = norm1_(ctx, s);
  x = gated(x, self_.self(ctx, seq, modulated(m), s.turns), m[2]);
  m = norm2_(ctx, s);
  x = gated(x, cross_.cross(ctx, seq, modulated(m), s), m[2]);
  m = norm3_(ctx, s);
  return gated(x, mlp_(ctx, modulated(m), seq, [](const Tensor& up) { return kinora::gelu(up); }), m[2]);
}

}  // namespace kinora::cosmos
