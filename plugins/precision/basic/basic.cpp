// Precisions without quantised numbers: fp32, fp64 and bf16.
#include <set>

#include "kinora/autograd.hpp"
#include "kinora/link.hpp"
#include "kinora/plugin.hpp"
#include "kinora/precision.hpp"

namespace kinora {

// Float32 throughout: the chain is unchanged.
class Fp32 final : public Precision<Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("fp32").help("float32 for parameters, activations and products");
    d.input("x", "[M, N]", "float");
    d.output("codes", "[M, N]", "float32").output("scales", "", "none").output("global_scale", "", "none");
    d.output("dequantized", "[M, N]", "float32");
  }
  explicit Fp32(const Options&) {}
  int32_t dtype() const override { return KINORA_DTYPE_FLOAT32; }
  std::vector<Tensor> quantize(const Tensor& x) override {
    const Tensor codes = x.to(KINORA_DTYPE_FLOAT32);
    return {codes, {}, {}, codes};
  }
};
KINORA_COMPONENT(Fp32)

// Float64 throughout, parameters included: for comparing runs digit by digit, not for speed.
class Fp64 final : public Precision<Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("fp64").help("float64 for parameters, activations and products; to compare runs, slow");
    d.input("x", "[M, N]", "float");
    d.output("codes", "[M, N]", "float64").output("scales", "", "none").output("global_scale", "", "none");
    d.output("dequantized", "[M, N]", "float64");
  }
  explicit Fp64(const Options&) {}
  int32_t dtype() const override { return KINORA_DTYPE_FLOAT64; }
  std::vector<Tensor> quantize(const Tensor& x) override {
    const Tensor codes = x.to(KINORA_DTYPE_FLOAT64);
    return {codes, {}, {}, codes};
  }
};
KINORA_COMPONENT(Fp64)

namespace {

// Products of bfloat16 operands, summed and returned in float32: for the output of a linear layer, for the
// gradient of its input, and for that of its weight. So no value that ranks still have to sum is rounded to 8
// bits before.
class Bf16Link final : public Link<Tensor> {
 public:
  Bf16Link() : Link(KINORA_LEVEL_PRECISION) {}

  kinora_param parameter(const kinora_param_spec& spec) override;
  // The weight is head's (a link above may provide it); the bias is added in float32. The result has x's
  // dtype, except that of a split ROW weight, which is at least float32, because the tensor link has yet to
  // sum it.
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const kinora_attention& how) override;

 private:
  std::set<kinora_param> partial_;  // ROW weights of which this rank holds a piece
  // COLUMN weights. The tensor link keeps only this rank's part of the tokens that they read; a copy would
  // keep those of all ranks.
  std::set<kinora_param> gathering_;
};

Tensor bf16(const Tensor& t) { return t.to(KINORA_DTYPE_BFLOAT16); }
Tensor transpose(const Tensor& t) { return op("aten::t", "", {t}); }
Tensor rows(const Tensor& t) { return t.reshape({-1, t.size(-1)}); }

// a [M, K] times b [K, N], both bfloat16 -> float32. A product of two bfloat16 numbers is exact in float32,
// so converting the operands first changes no bit of the sum; on CPUs without bfloat16 units it is also
// faster.
Tensor product(const Tensor& a, const Tensor& b) {
  if (a.info().device_type == KINORA_DL_CUDA) return op("aten::mm", "dtype", {a, b, KINORA_DTYPE_FLOAT32});
  return op("aten::mm", "", {a.to(KINORA_DTYPE_FLOAT32), b.to(KINORA_DTYPE_FLOAT32)});
}

// x [..., K], w [N, K] -> [..., N] float32. Keeps x in bfloat16 for the backward or, with as_is, the
// reference itself, as for w.
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

kinora_param Bf16Link::parameter(const kinora_param_spec& spec) {
  const kinora_param p = next.parameter(spec);
  if (spec.role == KINORA_ROLE_ROW && spec.shards > 1) partial_.insert(p);
  if (spec.role == KINORA_ROLE_COLUMN && spec.shards > 1) gathering_.insert(p);
  return p;
}

Tensor Bf16Link::linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq) {
  Tensor y = linear_bf16(x, head.value(w), gathering_.count(w) != 0);
  if (b) y = y + head.value(b).to(KINORA_DTYPE_FLOAT32);
  const bool keeps = partial_.count(w) != 0 && x.dtype() != KINORA_DTYPE_FLOAT64;
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

}  // namespace

// bfloat16 operands for linear layers and attention; parameters, sums and (unless the option says otherwise)
// the residual stream stay float32.
class Bf16 final : public Precision<Tensor> {
 public:
  struct Options {
    std::string stream = "float32";
  };
  static void describe(Describe<Options>& d) {
    d.name("bf16").help("bfloat16 operands of linear layers and attention, float32 sums and parameters");
    d.option("stream", &Options::stream)
        .choices({"float32", "bfloat16"})
        .help("dtype of the residual stream; bfloat16 halves its memory and rounds every residual sum");
    d.input("x", "[M, N]", "float");
    d.output("codes", "[M, N]", "bfloat16").output("scales", "", "none").output("global_scale", "", "none");
    d.output("dequantized", "[M, N]", "float32");
  }
  explicit Bf16(const Options& o)
      : stream_(o.stream == "bfloat16" ? KINORA_DTYPE_BFLOAT16 : KINORA_DTYPE_FLOAT32) {}

  const kinora_link* link() override { return link_.get(); }
  int32_t dtype() const override { return stream_; }
  std::vector<Tensor> quantize(const Tensor& x) override {
    const Tensor codes = x.to(KINORA_DTYPE_BFLOAT16);
    return {codes, {}, {}, codes.to(KINORA_DTYPE_FLOAT32)};
  }

 private:
  int32_t stream_;
  Bf16Link link_;
};
KINORA_COMPONENT(Bf16)

KINORA_PLUGIN(Fp32, Bf16, Fp64)

}  // namespace kinora
