#include "plugins/models/wan/block.hpp"

#include <cmath>

#include "kernels/torch/gelu.hpp"
#include "kernels/torch/modulate.hpp"
#include "kernels/torch/norm_rope.hpp"

namespace kinora::wan {

using at::Tensor;

Shared::Has Shared::has() const {
  Has out;
  const auto mine = all(*this);
  for (size_t i = 0; i < mine.size(); ++i) out[i] = mine[i]->defined();
  return out;
}

std::vector<Tensor> Shared::pack() const {
  std::vector<Tensor> out;
  for (const auto* t : all(*this))
    if (t->defined()) out.push_back(*t);
  return out;
}

Shared Shared::unpack(const std::vector<Tensor>& in, size_t from, Has has) {
  Shared s;
  const auto its = all(s);
  for (size_t i = 0; i < its.size(); ++i)
    if (has[i]) *its[i] = in[from++];
  return s;
}

Tensor modulated(const Tensor& x, const Tensor& shift, const Tensor& scale, double eps) {
  return modulate(x.to(wide(x)), shift, scale, eps).to(x.scalar_type());
}

Attend::Attend(const Declare& declare, std::string name, int64_t block, const Config& c, bool cross)
    : name_(std::move(name)), block_(block), width_(c.width()), head_dim_(c.attention_head_dim), eps_(c.eps) {
  const auto D = width_;
  const auto column = [&](const char* of, int64_t in) {
    return declare.linear(of, D, in, Role::column, head_dim_);
  };
  const auto norm = [&](const char* of) {
    return c.qk_norm.empty()
               ? 0
               : declare.parameter(std::string(of) + ".weight", {D}, Init::ones(), Role::column, head_dim_);
  };
  q_ = column("to_q", D), k_ = column("to_k", D), v_ = column("to_v", D);
  out_ = declare.linear("to_out.0", D, D, Role::row, head_dim_);
  norm_q_ = norm("norm_q"), norm_k_ = norm("norm_k");
  if (!cross || c.added_kv_proj_dim == 0) return;
  image_k_ = column("add_k_proj", c.added_kv_proj_dim), image_v_ = column("add_v_proj", c.added_kv_proj_dim);
  norm_image_k_ = norm("norm_added_k");
}

Tensor Attend::heads(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Linear& by,
                     kinora_param norm) const {
  return norm_across_heads(ctx, by(ctx, x, seq), norm, width_, eps_).unflatten(2, {-1, head_dim_});
}

Tensor Attend::attend(const Ctx& ctx, const char* suffix, kinora_seq seq, const Tensor& q, const Tensor& k,
                      const Tensor& v, Attention<Tensor> how) const {
  const std::string name = name_ + suffix;
  how.name = name.c_str();
  how.block = block_;
  how.q_seq = seq;
  how.scale = 1 / std::sqrt(static_cast<double>(head_dim_));
  return ctx.attention(q, k, v, how).flatten(2);
}

Tensor Attend::self(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Turns& turns) const {
  const auto turned = [&](const Tensor& t) { return norm_rope(t, {}, {turns.cos, turns.sin, true}, 0); };
  const Tensor q = turned(heads(ctx, seq, x, q_, norm_q_)), k = turned(heads(ctx, seq, x, k_, norm_k_));
  Attention<Tensor> how;
  how.kv_seq = seq;
  return out_(ctx, attend(ctx, "", seq, q, k, heads(ctx, seq, x, v_, 0), how), seq);
}

Tensor Attend::cross(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Shared& s) const {
  const Tensor q = heads(ctx, seq, x, q_, norm_q_);
  Attention<Tensor> how;
  how.kv_valid = s.text_mask;
  how.k_table = s.text_table;
  Tensor seen =
      attend(ctx, "", seq, q, heads(ctx, 0, s.text, k_, norm_k_), heads(ctx, 0, s.text, v_, 0), how);
  if (s.image.defined()) {
    Attention<Tensor> of_image;
    of_image.k_table = s.image_table;
    seen = seen + attend(ctx, ".image", seq, q, heads(ctx, 0, s.image, image_k_, norm_image_k_),
                         heads(ctx, 0, s.image, image_v_, 0), of_image);
  }
  return out_(ctx, seen, seq);
}

Block::Block(const Declare& declare, const Config& c, int64_t block)
    : table_(declare.parameter("scale_shift_table", {1, 6, c.width()},
                               Init::normal(1 / std::sqrt(static_cast<double>(c.width()))), Role::table)),
      self_(declare.in("attn1"), name(block) + "attn1", block, c, false),
      cross_(declare.in("attn2"), name(block) + "attn2", block, c, true),
      norm2_(c.cross_attn_norm ? declare.norm("norm2", c.width()) : Norm()),
      up_(declare.in("ffn").linear("net.0.proj", c.ffn_dim, c.width(), Role::column)),
      down_(declare.in("ffn").linear("net.2", c.width(), c.ffn_dim, Role::row)),
      eps_(c.eps) {}

Tensor Block::operator()(const Ctx& ctx, kinora_seq seq, Tensor x, const Shared& s) const {
  const Tensor table = ctx.value(table_).to(s.modulation.scalar_type()).unsqueeze(1);
  const auto parts = (table + s.modulation.unflatten(2, {6, -1})).unbind(2);
  const auto part = [&](size_t i) { return at_rows(parts[i], s.row); };
  const auto with = [&](const Tensor& added, size_t gate) {
    return gated(x.to(wide(x)), added.to(wide(x)), part(gate)).to(x.scalar_type());
  };
  x = with(self_.self(ctx, seq, modulated(x, part(0), part(1), eps_), s.turns), 2);
  x = x + cross_.cross(ctx, seq, norm2_.weight ? norm2_(ctx, x, eps_) : x, s);
  const Tensor hidden = kinora::gelu(up_(ctx, modulated(x, part(3), part(4), eps_), seq), {}, Gelu::tanh);
  return with(down_(ctx, hidden, seq), 5);
}

}  // namespace kinora::wan
