#include <ATen/ATen.h>

#include "kernels/cuda/low.hpp"
#include "kinora/aten.hpp"
#include "plugins/precision/quantised/gpu_operands.hpp"

namespace kinora::quantised {
namespace {

// Whether bfloat16 holds every code times its scale.
bool fits_bfloat16(const kinora_cuda_low& how) {
  return cuda::low_is_nvfp4(how) || cuda::low_is_one_scale(how) || cuda::low_is_mx(how) ||
         cuda::fp8_options(how).rule != fp8::ScaleRule::exact;
}

at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b, bool wide) {
  if (wide) return at::mm(a.to(at::kDouble), b.to(at::kDouble));
  if (a.is_cuda() && a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16)
    return at::mm(a, b, at::kFloat);
  return at::mm(a.to(at::kFloat), b.to(at::kFloat));
}

}  // namespace

at::Tensor GpuOperands::decoded(const GpuPacked& p, at::ScalarType type, const at::Tensor& global) const {
  const at::Tensor out = at::empty({p.count, p.shape.rows, p.shape.cols}, p.codes.options().dtype(type));
  for (int64_t i = 0; i < p.count; ++i)
    check(cuda_.low_dequantize(&p.how, handle(p.codes[i]), handle(p.scales[i]), handle(global[i]),
                               handle(out[i])));
  return out;
}

// Without the factor.
at::Tensor GpuOperands::tiles(const GpuPacked& p) const {
  return decoded(p, fits_bfloat16(p.how) ? at::kBFloat16 : at::kFloat, at::ones_like(p.global));
}

at::Tensor GpuOperands::rows_product(const GpuPacked& a, const GpuPacked& b, bool wide,
                                     at::ScalarType type) const {
  if (a.shape.rows == 0) return at::zeros({a.count, 0, b.shape.rows}, a.codes.options().dtype(type));
  if (has_tensor_cores(a, b, wide)) {
    const bool rounds = type == at::kBFloat16 && cuda::low_is_one_scale(a.how);  // no factor follows
    const at::Tensor out =
        at::empty({a.count, a.shape.rows, b.shape.rows}, a.codes.options().dtype(rounds ? type : at::kFloat));
    for (int64_t i = 0; i < a.count; ++i) by_tensor_cores(a, i, b, 0, out[i]);
    return out.to(type);
  }
  const at::Tensor factor = (a.factor * b.factor).to(wide ? at::kDouble : at::kFloat).view({-1, 1, 1}),
                   x = tiles(a).flatten(0, 1), y = tiles(b)[0];
  return multiplied(x, y.t(), wide).unflatten(0, {a.count, a.shape.rows}).mul_(factor).to(type);
}

at::Tensor GpuOperands::summed_product(const GpuPacked& a, const GpuPacked& b, const at::Tensor& given,
                                       bool wide) const {
  const at::Tensor factor = (a.factor * b.factor).to(wide ? at::kDouble : at::kFloat);
  const bool cores = has_tensor_cores(a, b, wide);
  const at::Tensor x = cores ? at::Tensor() : tiles(a), y = cores ? at::Tensor() : tiles(b);
  at::Tensor sum = given;
  for (int64_t i = 0; i < a.count; ++i) {
    at::Tensor one;
    if (cores) {
      one = at::empty({a.shape.rows, b.shape.rows}, a.codes.options().dtype(at::kFloat));
      by_tensor_cores(a, i, b, i, one);
    } else {
      one = multiplied(x[i], y[i].t(), wide).mul_(factor[i]);
    }
    sum = sum.defined() ? sum.add_(one) : one;
  }
  return sum;
}

// libtorch's _scaled_mm takes sizes in whole packs of 16 bytes, and not two E5M2 matrices.
bool GpuOperands::has_tensor_cores(const GpuPacked& a, const GpuPacked& b, bool wide) const {
  const int64_t unit = cuda::low_is_nvfp4(a.how) ? 32 : 16;
  if (wide || a.shape.cols % unit != 0 || b.shape.rows % 16 != 0) return false;
  if (a.how.format == KINORA_LOW_E5M2 && b.how.format == KINORA_LOW_E5M2) return false;
  if (cuda::low_is_nvfp4(a.how) || cuda::low_is_mx(a.how))
    return cuda::low_is(a.how, KINORA_LOW_SWIZZLED) && cuda::low_is(b.how, KINORA_LOW_SWIZZLED);
  return cuda::low_is_one_scale(a.how) && capability(a.codes) >= 89;
}

// out: [M, N], float32 or bfloat16.
void GpuOperands::by_tensor_cores(const GpuPacked& a, int64_t i, const GpuPacked& b, int64_t j,
                                  at::Tensor out) const {
  const auto codes = [](const GpuPacked& p, int64_t k) {
    const auto type = cuda::low_is_nvfp4(p.how)         ? at::ScalarType::Float4_e2m1fn_x2
                      : p.how.format == KINORA_LOW_E4M3 ? at::ScalarType::Float8_e4m3fn
                                                        : at::ScalarType::Float8_e5m2;
    return matrix_of(p.codes, k, p.shape.rows).view(type);
  };
  const bool one_scale = cuda::low_is_one_scale(a.how);
  const auto scales = [&](const GpuPacked& p, int64_t k) {
    if (one_scale) return p.factor[k].to(at::kFloat);
    return p.scales[k].view(cuda::low_is_nvfp4(p.how) ? at::ScalarType::Float8_e4m3fn
                                                      : at::ScalarType::Float8_e8m0fnu);
  };
  at::_scaled_mm_out(out, codes(a, i), codes(b, j).t(), scales(a, i), scales(b, j), {}, {}, out.scalar_type(),
                     /*use_fast_accum=*/false);
  if (!one_scale) out.mul_((a.factor[i] * b.factor[j]).to(at::kFloat));
}

Sums GpuOperands::sums(const GpuPacked& p, const at::Tensor& x, const Tokens* tokens) const {
  const at::Tensor all = decoded(p, at::kFloat, p.global);
  at::Tensor codes = p.codes.view({p.count, p.shape.rows, p.codes.numel() / (p.count * p.shape.rows)});
  if (cuda::low_is_nvfp4(p.how))
    codes = at::stack({codes.bitwise_and(7), codes.bitwise_right_shift(4).bitwise_and(7)}, 3)
                .flatten(2)
                .narrow(2, 0, p.shape.cols);
  else
    codes = codes.bitwise_and(0x7f);
  const int64_t largest = cuda::low_is_nvfp4(p.how) ? 7 : p.how.format == KINORA_LOW_E4M3 ? 0x7e : 0x7b;
  const at::Tensor finite = p.factor.isfinite().cpu();
  Sums out{};
  const auto add_rows = [&](int64_t k, int64_t row, int64_t rows) {
    const auto some = [&](const at::Tensor& of) { return of[k].narrow(0, row, rows); };
    const at::Tensor value = some(x).to(at::kDouble), rounded = some(all).to(at::kDouble), code = some(codes);
    const auto total = [](const at::Tensor& of) { return of.sum(at::kDouble).item<double>(); };
    out.values += static_cast<double>(value.numel());
    out.signal += total(value.square());
    out.noise += total((value - rounded).square());
    out.clipped += total((code == largest).logical_and(value.abs() > rounded.abs()));
    out.underflowed += total((code == 0).logical_and(value != 0));
  };
  for (int64_t k = 0; k < p.count; ++k) {
    if (!finite[k].item<bool>()) continue;
    if (!tokens) add_rows(k, 0, p.shape.rows);
    for (size_t r = 0; tokens && r < tokens->runs.size(); ++r)
      add_rows(k, tokens->runs[r].row, tokens->runs[r].count);
  }
  return out;
}

}  // namespace kinora::quantised
