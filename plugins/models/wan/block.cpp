#include "plugins/models/wan/block.hpp"

#include "kernels/torch/gelu.hpp"
#include "kernels/torch/modulate.hpp"
#include "kernels/torch/norm_rope.hpp"

namespace kinora::wan {

using at::Tensor;

namespace {

// RMSNorm over the `width` channels of all heads; x is INNER, so some may be on other ranks. weight 0: x.
Tensor norm_across_heads(const Ctx& ctx, const Tensor& x, kinora_param weight, int64_t width, double eps) {
  if (!weight) return x;
  const Tensor w = x.to(wide_type(x));
  const Tensor mean = ctx.all_reduce(w.square().sum(-1, true)) / static_cast<double>(width);
  return (w * at::rsqrt(mean + eps)).to(x.scalar_type()) * value_as(ctx, weight, x);
}

}  // namespace

Tensor wide_norm(const Ctx& ctx, const LayerNorm& norm, const Tensor& x) {
  return norm(ctx, x.to(wide_type(x))).to(x.scalar_type());
}

Tensor modulated(const Tensor& x, const Tensor& shift, const Tensor& scale, double eps) {
  return modulate(x.to(wide_type(x)), shift, scale, eps).to(x.scalar_type());
}

Attend::Attend(const Declare& declare, const Config& c, bool cross)
    : heads_(declare, c.attention_head_dim),
      image_heads_(declare.in("image"), c.attention_head_dim),
      rope_(video_rope(KINORA_ROPE_PAIRS, c.attention_head_dim, {1, 1, 1})),
      width_(c.width()),
      eps_(c.eps) {
  const auto D = width_, d = c.attention_head_dim;
  const auto column = [&](const char* of, int64_t in) { return declare.biased(of, D, in, Role::column, d); };
  const auto norm = [&](const char* of) {
    return c.qk_norm.empty() ? 0 : declare.weight(of, {D}, Init::ones(), Role::column, d);
  };
  q_ = column("to_q", D), k_ = column("to_k", D), v_ = column("to_v", D);
  out_ = declare.biased("to_out.0", D, D, Role::row, d);
  norm_q_ = norm("norm_q"), norm_k_ = norm("norm_k");
  if (!cross || c.added_kv_proj_dim == 0) return;
  image_k_ = column("add_k_proj", c.added_kv_proj_dim), image_v_ = column("add_v_proj", c.added_kv_proj_dim);
  norm_image_k_ = norm("norm_added_k");
}

Tensor Attend::heads(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Linear& by,
                     kinora_param norm) const {
  return heads_.split(norm_across_heads(ctx, by(ctx, x, seq), norm, width_, eps_));
}

Tensor Attend::self(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Turns& turns) const {
  const auto turned = [&](const Tensor& t) { return norm_rope(t, {}, {turns.cos, turns.sin, true}, 0); };
  const Tensor q = turned(heads(ctx, seq, x, q_, norm_q_)), k = turned(heads(ctx, seq, x, k_, norm_k_));
  kinora_rope rope{};
  Attention<Tensor> how;
  how.kv_seq = seq;
  how.rope = rope_.of(turns, rope);
  return out_(ctx, heads_.attend(ctx, seq, q, k, heads(ctx, seq, x, v_, 0), how), seq);
}

Tensor Attend::cross(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Shared& s) const {
  const Tensor q = heads(ctx, seq, x, q_, norm_q_);
  Attention<Tensor> how;
  how.kv_valid = s.text_mask;
  how.k_table = s.text_table;
  Tensor seen =
      heads_.attend(ctx, seq, q, heads(ctx, 0, s.text, k_, norm_k_), heads(ctx, 0, s.text, v_, 0), how);
  if (s.image.defined()) {
    Attention<Tensor> of_image;
    of_image.k_table = s.image_table;
    seen = seen + image_heads_.attend(ctx, seq, q, heads(ctx, 0, s.image, image_k_, norm_image_k_),
                                      heads(ctx, 0, s.image, image_v_, 0), of_image);
  }
  return out_(ctx, seen, seq);
}

Block::Block(const Declare& declare, const Config& c)
    : table_(declare("scale_shift_table", {1, 6, c.width()}, fan_in(c.width()), Role::table)),
      self_(declare.in("attn1"), c, false),
      cross_(declare.in("attn2"), c, true),
      norm2_(c.cross_attn_norm ? declare.layer_norm("norm2", c.width(), c.eps) : LayerNorm()),
      mlp_{declare.biased("ffn.net.0.proj", c.ffn_dim, c.width(), Role::column),
           declare.biased("ffn.net.2", c.width(), c.ffn_dim, Role::row)},
      eps_(c.eps) {}

Tensor Block::operator()(const Ctx& ctx, kinora_seq seq, Tensor x, const Shared& s) const {
  const Tensor table = ctx.value(table_).to(s.modulation.scalar_type()).unsqueeze(1);
  const auto parts = (table + s.modulation.unflatten(2, {6, -1})).unbind(2);
  const auto part = [&](size_t i) { return at_rows(parts[i], s.row); };
  const auto with = [&](const Tensor& added, size_t gate) {
    return gated(x.to(wide_type(x)), added.to(wide_type(x)), part(gate)).to(x.scalar_type());
  };
  x = with(self_.self(ctx, seq, modulated(x, part(0), part(1), eps_), s.turns), 2);
  x = x + cross_.cross(ctx, seq, norm2_.weight ? wide_norm(ctx, norm2_, x) : x, s);
  const auto gelu = [](const Tensor& up) { return kinora::gelu(up, {}, Gelu::tanh); };
  return with(mlp_(ctx, modulated(x, part(3), part(4), eps_), seq, gelu), 5);
}

}  // namespace kinora::wan
