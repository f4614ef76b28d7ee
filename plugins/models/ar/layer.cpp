#include "plugins/models/ar/layer.hpp"

#include <cmath>

namespace kinora::ar {

using at::Tensor;

namespace {

// GPT-2's initialisation: the more layers add to the stream, the smaller are their contributions.
Init onto_stream(const Config& c) {
  return Init::normal(0.02 / std::sqrt(2.0 * static_cast<double>(c.n_layers)));
}

}  // namespace

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

Tensor rms_norm(const Ctx& ctx, const Tensor& x, kinora_param weight, double eps) {
  const Tensor w = x.to(wide(x));
  return (w * at::rsqrt(w.square().mean(-1, true) + eps)).to(x.scalar_type()) *
         ctx.value(weight).to(x.scalar_type());
}

Attend::Attend(const Declare& declare, std::string name, int64_t block, const Config& c, int64_t kv_dim)
    : name_(std::move(name)), block_(block), head_dim_(c.head_dim), eps_(c.norm_eps) {
  const auto d = head_dim_, all = c.n_heads * d, kv = c.n_kv_heads * d;
  q_ = declare.weight("wq", {all, c.dim}, Init::normal(0.02), Role::column, d);
  k_ = declare.weight("wk", {kv, kv_dim}, Init::normal(0.02), Role::column, d);
  v_ = declare.weight("wv", {kv, kv_dim}, Init::normal(0.02), Role::column, d);
  out_ = declare.weight("wo", {c.dim, all}, onto_stream(c), Role::row, d);
  if (!c.use_qk_normalization) return;
  norm_q_ = declare.weight("q_norm", {d}, Init::ones());
  norm_k_ = declare.weight("k_norm", {d}, Init::ones());
}

Tensor Attend::heads(const Ctx& ctx, kinora_seq seq, const Tensor& x, kinora_param by,
                     kinora_param norm) const {
  const Tensor out = ctx.linear(x, by, 0, seq).unflatten(2, {-1, head_dim_});
  return norm ? rms_norm(ctx, out, norm, eps_) : out;
}

Tensor Attend::finish(const Ctx& ctx, kinora_seq seq, kinora_seq kv, const Tensor& q, const Tensor& k,
                      const Tensor& v, const Tensor& mask) const {
  Attention<Tensor> how;
  how.name = name_.c_str();
  how.block = block_;
  how.q_seq = seq;
  how.kv_seq = kv;
  how.scale = 1 / std::sqrt(static_cast<double>(head_dim_));
  how.kv_valid = mask;
  return ctx.linear(ctx.attention(q, k, v, how).flatten(2), out_, 0, seq);
}

Tensor Attend::self(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Turns& turns) const {
  const Tensor q = rope(heads(ctx, seq, x, q_, norm_q_), turns);
  const Tensor k = rope(heads(ctx, seq, x, k_, norm_k_), turns);
  return finish(ctx, seq, seq, q, k, heads(ctx, seq, x, v_, 0), {});
}

Tensor Attend::cross(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Tensor& text,
                     const Tensor& mask) const {
  return finish(ctx, seq, 0, heads(ctx, seq, x, q_, norm_q_), heads(ctx, 0, text, k_, norm_k_),
                heads(ctx, 0, text, v_, 0), mask);
}

Layer::Layer(const Declare& declare, const Config& c, int64_t block)
    : eps_(c.norm_eps),
      attention_norm_(declare.weight("attention_norm", {c.dim}, Init::ones())),
      ffn_norm_(declare.weight("ffn_norm", {c.dim}, Init::ones())),
      gate_(declare.in("feed_forward")
                .weight("w1", {c.ffn_hidden_size, c.dim}, Init::normal(0.02), Role::column)),
      up_(declare.in("feed_forward")
              .weight("w3", {c.ffn_hidden_size, c.dim}, Init::normal(0.02), Role::column)),
      down_(declare.in("feed_forward").weight("w2", {c.dim, c.ffn_hidden_size}, onto_stream(c), Role::row)),
      self_(declare.in("attention"), name(block) + "attention", block, c, c.dim) {
  if (!c.crosses(block - 1)) return;
  cross_norm_ = declare.weight("cross_attention_norm", {c.dim}, Init::ones());
  cross_.emplace(declare.in("cross_attention"), name(block) + "cross_attention", block, c, c.context_dim);
}

Tensor Layer::operator()(const Ctx& ctx, kinora_seq seq, Tensor x, const Turns& turns, const Tensor& text,
                         const Tensor& text_mask) const {
  const Turns mine{turns.cos.to(wide(x)), turns.sin.to(wide(x))};
  x = x + self_.self(ctx, seq, rms_norm(ctx, x, attention_norm_, eps_), mine);
  if (cross_ && text.defined())
    x = x + cross_->cross(ctx, seq, rms_norm(ctx, x, cross_norm_, eps_), text.to(x.scalar_type()), text_mask);
  const Tensor y = rms_norm(ctx, x, ffn_norm_, eps_);
  const Tensor hidden = at::silu(ctx.linear(y, gate_, 0, seq)) * ctx.linear(y, up_, 0, seq);
  return x + ctx.linear(hidden, down_, 0, seq);
}

}  // namespace kinora::ar
