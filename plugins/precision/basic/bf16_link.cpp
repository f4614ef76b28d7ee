#include "plugins/precision/basic/bf16_link.hpp"

namespace kinora {

namespace {

Tensor bf16(const Tensor& t) { return t.to(KINORA_BFLOAT16); }
Tensor transpose(const Tensor& t) { return op("aten::t", "", {t}); }
Tensor rows(const Tensor& t) { return t.reshape({-1, t.size(-1)}); }

// a [M, K] times b [K, N], both bfloat16 -> float32. A product of two bfloat16 numbers is exact in float32,
// so converting the operands first changes no bit of the sum; on CPUs without bfloat16 units it is also
// faster.
Tensor product(const Tensor& a, const Tensor& b) {
  if (a.info().device_type == KINORA_DL_CUDA) return op("aten::mm", "dtype", {a, b, KINORA_FLOAT32});
  return op("aten::mm", "", {a.to(KINORA_FLOAT32), b.to(KINORA_FLOAT32)});
}

// x [..., K], w [N, K] -> [..., N] float32. Keeps x in bfloat16 for the backward or, with as_is, the reference
// itself, as for w.
Tensor linear_bf16(const Tensor& x, const Tensor& w, bool as_is) {
  auto shape = x.sizes();
  shape.back() = w.size(0);
  const Tensor kept = as_is ? x.detach() : bf16(rows(x.detach()));
  const bool needs_x = x.requires_grad(), needs_w = w.requires_grad();
  const auto forward = [kept, shape](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{product(bf16(rows(kept)), transpose(bf16(in[1]))).reshape(shape)};
  };
  const auto backward = [kept, w = w.detach(), needs_x, needs_w, in_shape = x.sizes(), x_dtype = x.dtype(),
                         w_dtype = w.dtype()](const std::vector<Tensor>& grad) {
    const Tensor g_MN = bf16(rows(grad[0]));
    std::vector<Tensor> out(2);
    if (needs_x) out[0] = product(g_MN, bf16(w)).reshape(in_shape).to(x_dtype);
    if (needs_w) out[1] = product(transpose(g_MN), bf16(rows(kept))).to(w_dtype);
    return out;
  };
  return autograd_apply<Tensor>({x, w}, 1, forward, backward)[0];
}

}  // namespace

kinora_param Bf16Link::parameter(const kinora_param_spec& spec) {
  const kinora_param p = next.parameter(spec);
  if (spec.role == KINORA_ROW && spec.shards > 1) partial_.insert(p);
  if (spec.role == KINORA_COLUMN && spec.shards > 1) gathering_.insert(p);
  return p;
}

Tensor Bf16Link::linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq) {
  Tensor y = linear_bf16(x, head.value(w), gathering_.count(w) != 0);
  if (b) y = y + head.value(b).to(KINORA_FLOAT32);
  const bool keeps = partial_.count(w) != 0 && x.dtype() != KINORA_FLOAT64;
  return keeps ? y : y.to(x.dtype());
}

Tensor Bf16Link::attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) {
  kinora_attention as = how;
  Tensor k_shared, v_shared;
  if (how.k_shared) {
    k_shared = bf16(Tensor::borrow(how.k_shared));
    v_shared = bf16(Tensor::borrow(how.v_shared));
    as.k_shared = k_shared.get();
    as.v_shared = v_shared.get();
  }
  return next.attention(bf16(q), bf16(k), bf16(v), as).to(q.dtype());
}

}  // namespace kinora
