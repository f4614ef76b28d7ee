#include "plugins/models/ar/layer.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::ar {

using at::Tensor;

namespace {

// GPT-2's initialisation: the more layers add to the stream, the smaller are their contributions.
Init onto_stream(const Config& c) {
  return Init::normal(0.02 / std::sqrt(2.0 * static_cast<double>(c.n_layers)));
}

std::vector<int64_t> channels_of(const Config& c) {
  return c.rope_dim == "3D" ? rope_channels(c.head_dim) : std::vector{c.head_dim};
}

}  // namespace

Tensor llama_norm(const Ctx& ctx, const Tensor& x, kinora_param weight, double eps) {
  const Tensor w = x.to(wide_type(x));
  return (w * at::rsqrt(w.square().mean(-1, true) + eps)).to(x.scalar_type()) * value_as(ctx, weight, x);
}

Attend::Attend(const Declare& declare, const Config& c, int64_t kv_dim)
    : heads_(declare, c.head_dim),
      rope_(KINORA_ROPE_HALVES, channels_of(c), std::vector(3, c.rope_theta)),
      eps_(c.norm_eps) {
  const auto d = c.head_dim, all = c.n_heads * d, kv = c.n_kv_heads * d;
  q_ = declare.linear("wq", all, c.dim, Init::normal(0.02), Role::column, d);
  k_ = declare.linear("wk", kv, kv_dim, Init::normal(0.02), Role::column, d);
  v_ = declare.linear("wv", kv, kv_dim, Init::normal(0.02), Role::column, d);
  out_ = declare.linear("wo", c.dim, all, onto_stream(c), Role::row, d);
  if (!c.use_qk_normalization) return;
  norm_q_ = declare.weight("q_norm", {d}, Init::ones());
  norm_k_ = declare.weight("k_norm", {d}, Init::ones());
}

Tensor Attend::heads(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Linear& by,
                     kinora_param norm) const {
  const Tensor out = heads_.split(by(ctx, x, seq));
  return norm ? llama_norm(ctx, out, norm, eps_) : out;
}

kinora_rope Attend::rope_of(const Grid& grid) const {
  kinora_rope out = rope_.all();
  std::fill_n(out.column, 3, KINORA_TOKEN_INDEX);
  if (grid.rows == 0) return out;
  out.first = 1;  // a position has the code before it
  out.divisor[0] = grid.rows * grid.cols, out.divisor[1] = grid.cols;
  out.modulus[1] = grid.rows, out.modulus[2] = grid.cols;
  return out;
}

Tensor Attend::self(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Turns& turns,
                    const Grid& grid) const {
  const Tensor q = rope(heads(ctx, seq, x, q_, norm_q_), turns);
  const Tensor k = rope(heads(ctx, seq, x, k_, norm_k_), turns);
  const kinora_rope rotation = rope_of(grid);
  Attention<Tensor> how;
  how.kv_seq = seq;
  how.rope = &rotation;
  return out_(ctx, heads_.attend(ctx, seq, q, k, heads(ctx, seq, x, v_, 0), how), seq);
}

Tensor Attend::cross(const Ctx& ctx, kinora_seq seq, const Tensor& x, const Tensor& text,
                     const Tensor& mask) const {
  Attention<Tensor> how;
  how.kv_valid = mask;
  return out_(ctx,
              heads_.attend(ctx, seq, heads(ctx, seq, x, q_, norm_q_), heads(ctx, 0, text, k_, norm_k_),
                            heads(ctx, 0, text, v_, 0), how),
              seq);
}

Layer::Layer(const Declare& declare, const Config& c, int64_t block)
    : eps_(c.norm_eps),
      attention_norm_(declare.weight("attention_norm", {c.dim}, Init::ones())),
      ffn_norm_(declare.weight("ffn_norm", {c.dim}, Init::ones())),
      gate_(declare.linear("feed_forward.w1", c.ffn_hidden_size, c.dim, Init::normal(0.02), Role::column)),
      up_(declare.linear("feed_forward.w3", c.ffn_hidden_size, c.dim, Init::normal(0.02), Role::column)),
      down_(declare.linear("feed_forward.w2", c.dim, c.ffn_hidden_size, onto_stream(c), Role::row)),
      self_(declare.in("attention"), c, c.dim) {
  if (!c.crosses(block - 1)) return;
  cross_norm_ = declare.weight("cross_attention_norm", {c.dim}, Init::ones());
  cross_.emplace(declare.in("cross_attention"), c, c.context_dim);
}

Tensor Layer::operator()(const Ctx& ctx, kinora_seq seq, Tensor x, const Turns& turns, const Grid& grid,
                         const Tensor& text, const Tensor& text_mask) const {
  const Turns mine{turns.cos.to(wide_type(x)), turns.sin.to(wide_type(x))};
  x = x + self_.self(ctx, seq, llama_norm(ctx, x, attention_norm_, eps_), mine, grid);
  if (cross_ && text.defined())
    x = x +
        cross_->cross(ctx, seq, llama_norm(ctx, x, cross_norm_, eps_), text.to(x.scalar_type()), text_mask);
  const Tensor y = llama_norm(ctx, x, ffn_norm_, eps_);
  const Tensor hidden = at::silu(gate_(ctx, y, seq)) * up_(ctx, y, seq);
  return x + down_(ctx, hidden, seq);
}

Turns rope_turns(const Tensor& index, int64_t head_dim, double theta, const Grid& grid) {
  Tensor angle;
  if (grid.rows == 0) {
    angle = rope_angles(index, head_dim, theta);
  } else {
    const int64_t space = head_dim / 6 * 2, area = grid.rows * grid.cols;
    const Tensor code = (index - 1).clamp_min(0), place = code.remainder(area);
    angle = at::cat({rope_angles(at::floor_divide(code, area), head_dim - 2 * space, theta),
                     rope_angles(at::floor_divide(place, grid.cols), space, theta),
                     rope_angles(place.remainder(grid.cols), space, theta)},
                    -1);
  }
  angle = angle.unsqueeze(2);
  return {angle.cos(), angle.sin()};
}

}  // namespace kinora::ar
