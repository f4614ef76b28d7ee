#include "plugins/models/cosmos/block.hpp"

#include <cmath>

#include "kernels/torch/gelu.hpp"
#include "kernels/torch/modulate.hpp"
#include "kernels/torch/norm_rope.hpp"

namespace kinora::cosmos {

using at::Tensor;

kinora_param Declare::weight(const std::string& name, std::vector<int64_t> shape, Init init, Role role,
                             int64_t quantum) const {
  Parameter p;
  p.name = prefix_ + name + ".weight";
  p.shape = std::move(shape);
  p.init = init;
  p.role = role;
  p.block = block_;
  p.quantum = quantum;
  return ctx_.parameter(p);
}

kinora_param Declare::linear(const std::string& name, int64_t out, int64_t in, Role role,
                             int64_t quantum) const {
  return weight(name, {out, in}, Init::uniform(std::sqrt(6.0 / static_cast<double>(in + out))), role,
                quantum);
}

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

// Zeros in the last layer, so that a block starts as the identity.
AdaLn::AdaLn(const Declare& declare, int64_t width, int64_t rank, int64_t parts)
    : down_(declare.linear("linear_1", rank, width)),
      up_(declare.weight("linear_2", {parts * width, rank}, Init::zeros())),
      width_(width),
      parts_(parts) {}

std::vector<Tensor> AdaLn::operator()(const Ctx& ctx, const Tensor& embedding, const Tensor& modulation,
                                      const Tensor& row) const {
  const Tensor own = ctx.linear(ctx.linear(at::silu(embedding), down_, 0, 0), up_, 0, 0);
  return at_rows(own + modulation.narrow(2, 0, parts_ * width_), row).chunk(parts_, 2);
}

Attend::Attend(const Declare& declare, std::string name, int64_t block, const Config& c, int64_t kv_width)
    : q_(declare.linear("to_q", c.width(), c.width(), Role::column, c.head_size)),
      k_(declare.linear("to_k", c.width(), kv_width, Role::column, c.head_size)),
      v_(declare.linear("to_v", c.width(), kv_width, Role::column, c.head_size)),
      out_(declare.linear("to_out.0", c.width(), c.width(), Role::row, c.head_size)),
      norm_q_(declare.weight("norm_q", {c.head_size}, Init::ones())),
      norm_k_(declare.weight("norm_k", {c.head_size}, Init::ones())),
      name_(std::move(name)),
      block_(block),
      head_size_(c.head_size),
      epsilon_(c.qk_norm_eps) {}

Tensor Attend::heads(const Ctx& ctx, const Tensor& x, kinora_param w, kinora_seq seq) const {
  return ctx.linear(x, w, 0, seq).unflatten(2, {-1, head_size_});
}

Tensor Attend::head_norm(const Ctx& ctx, const Tensor& x, kinora_param w, const Turns& turns) const {
  return norm_rope(x, ctx.value(w).to(x.scalar_type()), {turns.cos, turns.sin}, epsilon_);
}

Tensor Attend::finish(const Ctx& ctx, kinora_seq seq, const Tensor& q, const Tensor& k, const Tensor& v,
                      Attention<Tensor> how) const {
  how.name = name_.c_str();
  how.block = block_;
  how.q_seq = seq;
  how.scale = 1 / std::sqrt(static_cast<double>(head_size_));
  return ctx.linear(ctx.attention(q, k, v, how).flatten(2), out_, 0, seq);
}

Tensor Attend::self(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Turns& turns) const {
  const Tensor q = head_norm(ctx, heads(ctx, x, q_, seq), norm_q_, turns);
  const Tensor k = head_norm(ctx, heads(ctx, x, k_, seq), norm_k_, turns);
  Attention<Tensor> how;
  how.kv_seq = seq;
  return finish(ctx, seq, q, k, heads(ctx, x, v_, seq), how);
}

Tensor Attend::cross(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Shared& s) const {
  const Tensor q = head_norm(ctx, heads(ctx, x, q_, seq), norm_q_, {});
  const Tensor k = head_norm(ctx, heads(ctx, s.text, k_, 0), norm_k_, {});
  Attention<Tensor> how;
  how.kv_valid = s.text_mask;
  how.k_table = s.text_table;
  return finish(ctx, seq, q, k, heads(ctx, s.text, v_, 0), how);
}

Block::Block(const Declare& declare, const Config& c, int64_t block)
    : norm1_(declare.in("norm1"), c.width(), c.adaln_lora, 3),
      norm2_(declare.in("norm2"), c.width(), c.adaln_lora, 3),
      norm3_(declare.in("norm3"), c.width(), c.adaln_lora, 3),
      self_(declare.in("attn1"), name(block) + "attn1", block, c, c.width()),
      cross_(declare.in("attn2"), name(block) + "attn2", block, c, c.text_size),
      up_(declare.in("ff").linear("net.0.proj", c.mlp(), c.width(), Role::column)),
      down_(declare.in("ff").linear("net.2", c.width(), c.mlp(), Role::row)) {}

Tensor Block::operator()(const Ctx& ctx, kinora_seq seq, Tensor x, const Shared& s) const {
  if (s.position.defined()) x = x + s.position;
  const auto modulated = [&](const std::vector<Tensor>& m) { return modulate(x, m[0], m[1], 1e-6); };
  auto m = norm1_(ctx, s.embedding, s.modulation, s.row);
  x = gated(x, self_.self(ctx, seq, modulated(m), s.turns), m[2]);
  m = norm2_(ctx, s.embedding, s.modulation, s.row);
  x = gated(x, cross_.cross(ctx, seq, modulated(m), s), m[2]);
  m = norm3_(ctx, s.embedding, s.modulation, s.row);
  const Tensor hidden = kinora::gelu(ctx.linear(modulated(m), up_, 0, seq));
  return gated(x, ctx.linear(hidden, down_, 0, seq), m[2]);
}

}  // namespace kinora::cosmos
