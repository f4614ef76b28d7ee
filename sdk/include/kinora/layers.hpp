// Layers that models of the pinned tier share: they declare parameters with a context and compute through it.
//
// B batch, S local tokens, R rows of conditions (1, one per frame or one per token), D width, d head size.
// Results have x's dtype unless a comment says otherwise; parameters are cast to it.
#pragma once
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/context.hpp"

KINORA_SDK_BEGIN

namespace kinora {

using Ctx = Context<at::Tensor>;

// The dtype for statistics, angles and sums of x: float64 if x is, else float32.
inline at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// The parameter's value in x's dtype.
inline at::Tensor value_as(const Ctx& ctx, kinora_param p, const at::Tensor& x) {
  return ctx.value(p).to(x.scalar_type());
}

// t [...] -> [..., size], in at least float32: cosines, then sines, of t * 10000^(-2i / size) (Vaswani et al.
// 2017, arXiv 1706.03762, section 3.5, with the halves not interleaved). sines_first: sines, then cosines.
inline at::Tensor sinusoid(const at::Tensor& t, int64_t size, bool sines_first = false) {
  const auto half = size / 2;
  const at::Tensor exponent =
      at::arange(half, t.options().dtype(wide_type(t))) * (-std::log(10000.0) / static_cast<double>(half));
  const at::Tensor angle = t.to(wide_type(t)).unsqueeze(-1) * at::exp(exponent);
  return sines_first ? at::cat({angle.sin(), angle.cos()}, -1) : at::cat({angle.cos(), angle.sin()}, -1);
}

// Initial values of a matrix [out, in]: uniform with the variance 2 / (in + out) (Glorot and Bengio 2010,
// equation 16).
inline Init xavier(int64_t out, int64_t in) {
  return Init::uniform(std::sqrt(6.0 / static_cast<double>(in + out)));
}
// Normal with the variance 1 / n, so that a sum over n inputs of unit variance has unit variance.
inline Init fan_in(int64_t n) { return Init::normal(1 / std::sqrt(static_cast<double>(n))); }

// x w^T + b; without a bias `bias` is 0.
struct Linear {
  kinora_param weight = 0, bias = 0;
  // seq: x's, 0 if all ranks share x.
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x, kinora_seq seq = 0) const {
    return ctx.linear(x, weight, bias, seq);
  }
};

// LayerNorm over the last dimension, with learnt scale and shift.
struct LayerNorm {
  kinora_param weight = 0, bias = 0;
  double epsilon = 0;
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x) const {
    return at::layer_norm(x, {x.size(-1)}, value_as(ctx, weight, x), value_as(ctx, bias, x), epsilon);
  }
};

// RMSNorm over the last dimension with a learnt scale (Zhang and Sennrich 2019, arXiv 1910.07467).
inline at::Tensor rms_norm(const Ctx& ctx, const at::Tensor& x, kinora_param weight, double epsilon) {
  return at::rms_norm(x, {x.size(-1)}, value_as(ctx, weight, x), epsilon);
}

// Declares parameters whose names begin with `prefix`, such as "blocks.0.", for one block of the context.
class Declare {
 public:
  // block: index of the block that reads them; -1: read outside blocks.
  Declare(const Ctx& ctx, std::string prefix = "", int64_t block = -1)  // NOLINT(google-explicit-constructor)
      : ctx_(ctx), prefix_(std::move(prefix)), block_(block) {}
  Declare in(const std::string& name) const { return {ctx_, prefix_ + name + ".", block_}; }
  const Ctx& context() const { return ctx_; }
  int64_t block() const { return block_; }
  // The prefix without its last dot.
  std::string name() const { return prefix_.substr(0, prefix_.size() - (prefix_.empty() ? 0 : 1)); }

  // quantum: the head size where heads are split.
  kinora_param operator()(const std::string& name, std::vector<int64_t> shape, Init init,
                          Role role = Role::whole, int64_t quantum = 1) const {
    Parameter p;
    p.name = prefix_ + name;
    p.shape = std::move(shape);
    p.init = init;
    p.role = role;
    p.block = block_;
    p.quantum = quantum;
    return ctx_.parameter(p);
  }
  // name.weight
  kinora_param weight(const std::string& name, std::vector<int64_t> shape, Init init, Role role = Role::whole,
                      int64_t quantum = 1) const {
    return (*this)(name + ".weight", std::move(shape), init, role, quantum);
  }
  // name.weight [out, in], without a bias.
  Linear linear(const std::string& name, int64_t out, int64_t in, Init init, Role role = Role::whole,
                int64_t quantum = 1) const {
    return {weight(name, {out, in}, init, role, quantum), 0};
  }
  Linear linear(const std::string& name, int64_t out, int64_t in, Role role = Role::whole,
                int64_t quantum = 1) const {
    return linear(name, out, in, xavier(out, in), role, quantum);
  }
  // The same and name.bias [out], initially zero. The bias of a ROW linear is added once, to the sum of the
  // parts, so it is whole.
  Linear biased(const std::string& name, int64_t out, int64_t in, Init init, Role role = Role::whole,
                int64_t quantum = 1) const {
    const bool split = role == Role::column;
    const auto matrix = weight(name, {out, in}, init, role, quantum);
    return {matrix,
            (*this)(name + ".bias", {out}, Init::zeros(), split ? role : Role::whole, split ? quantum : 1)};
  }
  Linear biased(const std::string& name, int64_t out, int64_t in, Role role = Role::whole,
                int64_t quantum = 1) const {
    return biased(name, out, in, xavier(out, in), role, quantum);
  }
  // name.weight and name.bias [size]
  LayerNorm layer_norm(const std::string& name, int64_t size, double epsilon) const {
    const auto scale = weight(name, {size}, Init::ones());
    return {scale, (*this)(name + ".bias", {size}, Init::zeros()), epsilon};
  }

 private:
  Ctx ctx_;
  std::string prefix_;
  int64_t block_;
};

// Two linear layers of values that all ranks share, with SiLU between: the embedding of a noise level or of
// another vector.
struct Embedder {
  Linear first, second;
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x) const {
    return second(ctx, at::silu(first(ctx, x)));
  }
};

// Two linear layers of tokens, with an activation between.
struct FeedForward {
  Linear up, down;
  template <class Activation>
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& x, kinora_seq seq, Activation activation) const {
    return down(ctx, activation(up(ctx, x, seq)), seq);
  }
};

// The shifts, scales and gates of adaptive layer norm (Peebles and Xie 2023, arXiv 2212.09748, section 3.2;
// of low rank: Gupta et al. 2023, arXiv 2312.06662). They are initially zero, so that a block starts as the
// identity.
class AdaLn {
 public:
  // names: of the two layers; rank 0: one full layer, which has the first name.
  AdaLn(const Declare& declare, const std::array<std::string, 2>& names, int64_t width, int64_t rank,
        int64_t parts)
      : parts_(parts) {
    if (rank > 0) down_ = declare.linear(names[0], rank, width);
    up_ = declare.linear(names[rank > 0 ? 1 : 0], parts * width, rank > 0 ? rank : width, Init::zeros());
  }
  // active [B, R, D]: SiLU of the embedding. -> [B, R, parts * D]
  at::Tensor operator()(const Ctx& ctx, const at::Tensor& active) const {
    return up_(ctx, down_.weight ? down_(ctx, active) : active);
  }
  // [B, any, parts * D] -> `parts` tensors [B, any, D]
  std::vector<at::Tensor> split(const at::Tensor& all) const { return all.chunk(parts_, 2); }

 private:
  int64_t parts_;
  Linear down_, up_;
};

// Attention by heads of d channels, without its projections.
class Heads {
 public:
  // declare: its name and its block are the attention's. Scores are multiplied by `scale`.
  Heads(const Declare& declare, int64_t size, double scale)
      : name_(declare.name()), block_(declare.block()), size_(size), scale_(scale) {}
  Heads(const Declare& declare, int64_t size)
      : Heads(declare, size, 1 / std::sqrt(static_cast<double>(size))) {}
  int64_t size() const { return size_; }
  // x [B, S, heads * d] -> [B, S, heads, d]; only this rank's heads.
  at::Tensor split(const at::Tensor& x) const { return x.unflatten(2, {-1, size_}); }
  // q [B, S, heads, d], k and v [B, any, heads, d] -> [B, S, heads * d]. q_seq: q's. how: all that q, its
  // name and its block do not say.
  at::Tensor attend(const Ctx& ctx, kinora_seq q_seq, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, Attention<at::Tensor> how = {}) const {
    how.name = name_.c_str();
    how.block = block_;
    how.q_seq = q_seq;
    how.scale = scale_;
    return ctx.attention(q, k, v, how).flatten(2);
  }

 private:
  std::string name_;
  int64_t block_, size_;
  double scale_;
};

}  // namespace kinora

KINORA_SDK_END
