// A link whose linear layers and attention have bfloat16 operands. For the stable tier: precision/bf16, and
// the layers that a precision of fewer bits leaves in bfloat16.
#pragma once
#include <set>
#include <vector>

#include "kinora/autograd.hpp"
#include "kinora/link.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// Products of bfloat16 operands, summed and returned in float32: for the output of a linear layer, for the
// gradient of its input, and for that of its weight. So no value that ranks still have to sum is rounded to 8
// bits before.
class Bf16Link : public Link<Tensor> {
 public:
  Bf16Link() : Link(KINORA_LEVEL_PRECISION, KINORA_ATTENTION_CODES) {}

  kinora_param parameter(const kinora_param_spec& spec) override {
    const kinora_param p = next.parameter(spec);
    if (spec.role == KINORA_ROLE_ROW && spec.shards > 1) partial_.insert(p);
    if (spec.role == KINORA_ROLE_COLUMN && spec.shards > 1) gathering_.insert(p);
    return p;
  }
  // The weight is head's (a link above may provide it); the bias is added in float32. The result has x's
  // dtype, except that of a split ROW weight, which is at least float32, because the tensor link has yet to
  // sum it.
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq) override {
    return finished(product_of(x, head.value(w), gathers(w)), x, w, b);
  }
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override {
    kinora_attention as = how;
    Tensor k_shared, v_shared;
    if (how.k_shared) {
      k_shared = bf16(Tensor::borrow(how.k_shared));
      v_shared = bf16(Tensor::borrow(how.v_shared));
      as.k_shared = k_shared.get();
      as.v_shared = v_shared.get();
    }
    const bool codes = how.needs & KINORA_ATTENTION_CODES;  // the base decodes them to q's dtype
    return next.attention(bf16(q), codes ? k : bf16(k), codes ? v : bf16(v), as).to(q.dtype());
  }

 protected:
  static Tensor transposed(const Tensor& t) { return op("aten::t", "", {t}); }
  static Tensor rows(const Tensor& t) { return t.reshape({-1, t.size(-1)}); }
  // COLUMN weights that are split. The tensor link keeps only this rank's part of the tokens that they read;
  // a copy would keep those of all ranks.
  bool gathers(kinora_param w) const { return gathering_.count(w) != 0; }
  // Whether the result stays wider than x: ranks have yet to sum it.
  bool keeps_sum(const Tensor& x, kinora_param w) const {
    return partial_.count(w) != 0 && x.dtype() != KINORA_DTYPE_FLOAT64;
  }
  // Adds the bias to a product of x, in float32 or wider.
  Tensor finished(Tensor y, const Tensor& x, kinora_param w, kinora_param b) const {
    if (b) y = y + head.value(b).to(y.dtype());
    return keeps_sum(x, w) ? y : y.to(x.dtype());
  }

 private:
  static Tensor bf16(const Tensor& t) { return t.to(KINORA_DTYPE_BFLOAT16); }
  // a [M, K] times b [K, N], both bfloat16 -> float32. A product of two bfloat16 numbers is exact in float32,
  // so converting the operands first changes no bit of the sum; on CPUs without bfloat16 units it is also
  // faster.
  static Tensor product(const Tensor& a, const Tensor& b) {
    if (a.info().device_type == KINORA_DL_CUDA) return op("aten::mm", "dtype", {a, b, KINORA_DTYPE_FLOAT32});
    return op("aten::mm", "", {a.to(KINORA_DTYPE_FLOAT32), b.to(KINORA_DTYPE_FLOAT32)});
  }
  // x [..., K], w [N, K] -> [..., N] float32. Keeps x in bfloat16 for the backward or, with as_is, the
  // reference itself, as for w.
  static Tensor product_of(const Tensor& x, const Tensor& w, bool as_is) {
    auto shape = x.sizes();
    shape.back() = w.size(0);
    const Tensor kept = as_is ? x.detach() : bf16(rows(x.detach()));
    const bool needs_x = x.requires_grad(), needs_w = w.requires_grad();
    const auto forward = [kept, shape](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{product(bf16(rows(kept)), transposed(bf16(in[1]))).reshape(shape)};
    };
    const auto backward = [kept, w = w.detach(), needs_x, needs_w, in_shape = x.sizes(), x_dtype = x.dtype(),
                           w_dtype = w.dtype()](const std::vector<Tensor>& grad) {
      const Tensor g_MN = bf16(rows(grad[0]));
      std::vector<Tensor> out(2);
      if (needs_x) out[0] = product(g_MN, bf16(w)).reshape(in_shape).to(x_dtype);
      if (needs_w) out[1] = product(transposed(g_MN), bf16(rows(kept))).to(w_dtype);
      return out;
    };
    return autograd_apply<Tensor>({x, w}, 1, forward, backward)[0];
  }

  std::set<kinora_param> partial_;  // ROW weights of which this rank holds a piece
  std::set<kinora_param> gathering_;
};

}  // namespace kinora

KINORA_SDK_END
