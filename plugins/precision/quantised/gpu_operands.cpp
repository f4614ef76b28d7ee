#include "plugins/precision/quantised/gpu_operands.hpp"

#include <ATen/ATen.h>

#include "kernels/cuda/low.hpp"
#include "kinora/aten.hpp"

namespace kinora::quantised {
namespace {

using cuda::low_code_bytes;
using cuda::low_is;
using cuda::low_scale_bytes;

bool is_nvfp4(const kinora_cuda_low& how) { return how.format == KINORA_LOW_NVFP4; }
bool is_mx(const kinora_cuda_low& how) {
  return !is_nvfp4(how) && cuda::fp8_options(how).scaling == fp8::Scaling::mx;
}
// Whether bfloat16 holds every code times its scale.
bool fits_bfloat16(const kinora_cuda_low& how) {
  return is_nvfp4(how) || cuda::low_is_one_scale(how) || is_mx(how) ||
         cuda::fp8_options(how).rule != fp8::ScaleRule::exact;
}

std::vector<Channels> without_noise(const kinora_cuda_low& how, const std::vector<Channels>& channels,
                                    int64_t all) {
  return low_is(how, KINORA_LOW_STOCHASTIC) ? channels : std::vector<Channels>{{0, all, 0}};
}
kinora_cuda_low with_noise(kinora_cuda_low how, const NoiseSource& noise, uint32_t stream, int64_t row,
                           int64_t col) {
  how.noise_seed = noise.key, how.noise_stream = stream, how.noise_row = row, how.noise_col = col;
  return how;
}

// The results of low_amax [..., 4] -> the magnitudes [...].
at::Tensor magnitudes(const at::Tensor& raw) {
  const at::Tensor found = raw.select(-1, 0), count = raw.view(at::kLong).select(-1, 1);
  return at::where(count == 0, found, at::full({}, INFINITY, found.options()));
}
at::Tensor with_room(const at::Tensor& magnitudes) {
  return at::constant_pad_nd(magnitudes.unsqueeze(1), {0, 3});
}

at::Tensor at_tokens(const at::Tensor& x, const Tokens& tokens, const Run& stretch) {
  const auto* const rows = tokens.order.data() + stretch.row;
  bool in_a_row = true;
  for (int64_t i = 1; i < stretch.count; ++i) in_a_row = in_a_row && rows[i] == rows[0] + i;
  if (in_a_row) return x.narrow(1, rows[0], stretch.count);
  const at::Tensor index = at::tensor(at::IntArrayRef(rows, static_cast<size_t>(stretch.count)), at::kLong);
  return x.index_select(1, index.to(x.device()));
}

// One of the matrices of [count, ...] as rows.
at::Tensor matrix(const at::Tensor& of, int64_t i, int64_t rows) {
  const at::Tensor one = of[i];
  return one.view({rows, one.numel() / std::max<int64_t>(rows, 1)});
}

at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b, bool wide) {
  if (wide) return at::mm(a.to(at::kDouble), b.to(at::kDouble));
  if (a.is_cuda() && a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16)
    return at::mm(a, b, at::kFloat);
  return at::mm(a.to(at::kFloat), b.to(at::kFloat));
}

}  // namespace

int32_t GpuOperands::capability(const at::Tensor& x) const {
  int32_t out = 0;
  check(cuda_.capability(x.device().index(), &out));
  return out;
}

void GpuOperands::amax(const kinora_cuda_low& how, const at::Tensor& x, const at::Tensor& to) const {
  check(cuda_.low_amax(&how, handle(x), handle(to)));
}

at::Tensor GpuOperands::amax_of(const Use& use, const at::Tensor& w) const {
  const at::Tensor raw = at::zeros({1, 4}, w.options().dtype(at::kFloat));
  amax(format_.on_gpu(use), w, raw[0]);
  return with_room(magnitudes(raw));
}

at::Tensor GpuOperands::amax_of_rows(const Use& use, const at::Tensor& x, const Tokens& tokens) const {
  const auto runs = static_cast<int64_t>(tokens.runs.size());
  const at::Tensor raw = at::zeros({x.size(0), std::max<int64_t>(runs, 1), 4}, x.options().dtype(at::kFloat));
  const kinora_cuda_low how = format_.on_gpu(use);
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t r = 0; r < runs; ++r) {
      const Run& run = tokens.runs[static_cast<size_t>(r)];
      amax(how, x[b].narrow(0, run.row, run.count), raw[b][r]);
    }
  return with_room(magnitudes(raw).amax(1));
}

at::Tensor GpuOperands::amax_of_columns(const Use& use, const std::vector<at::Tensor>& columns,
                                        int64_t samples) const {
  kinora_cuda_low how = format_.on_gpu(use);
  how.flags |= KINORA_LOW_COLUMN_MAJOR;
  std::vector<at::Tensor> all;
  for (const at::Tensor& x : columns) {
    const at::Tensor raw = at::zeros({samples, 4}, x.options().dtype(at::kFloat));
    for (int64_t b = 0; b < samples; ++b) amax(how, x[b], raw[b]);
    all.push_back(magnitudes(raw));
  }
  return with_room(at::stack(all).amax(0));
}

// Swizzled scales are for the tensor cores of Blackwell.
bool GpuOperands::swizzles(const kinora_cuda_low& how, const at::Tensor& x) const {
  return (is_nvfp4(how) || is_mx(how)) && capability(x) >= 100;
}

// all: every row will be encoded; others become zeros.
GpuPacked GpuOperands::room_for(const kinora_cuda_low& given, const Shape& n, int64_t count, bool swizzled,
                                bool all, const at::Tensor& like) const {
  GpuPacked p{given, n, count, {}, {}, at::ones({count, 1}, like.options().dtype(at::kFloat)), {}};
  if (swizzled) p.how.flags |= KINORA_LOW_SWIZZLED;
  const auto bytes = like.options().dtype(at::kByte);
  const auto made = [&](int64_t of_each) {
    return all ? at::empty({count, of_each}, bytes) : at::zeros({count, of_each}, bytes);
  };
  p.codes = made(low_code_bytes(p.how, n));
  p.scales = made(low_scale_bytes(p.how, n));
  return p;
}

void GpuOperands::encode(const kinora_cuda_low& how, const at::Tensor& x, const at::Tensor& amax,
                         const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& global) const {
  check(cuda_.low_quantize(&how, handle(x), handle(amax), handle(codes), handle(scales), handle(global)));
}

void GpuOperands::finish(GpuPacked& p, const at::Tensor& amax) const {
  const at::Tensor g = p.global.select(1, 0).to(at::kDouble), of = is_nvfp4(p.how) ? g.reciprocal() : g;
  p.factor = at::where(amax.select(1, 0).isfinite(), of, at::full({}, NAN, of.options()));
  p.how.flags &= ~KINORA_LOW_COLUMN_MAJOR;
}

GpuPacked GpuOperands::packed(const Use& use, const at::Tensor& w, const at::Tensor& amax,
                              bool transposed) const {
  kinora_cuda_low how = format_.on_gpu(use);
  if (transposed) how.flags |= KINORA_LOW_COLUMN_MAJOR;
  const Shape n{w.size(transposed ? 1 : 0), w.size(transposed ? 0 : 1)};
  GpuPacked p = room_for(how, n, 1, swizzles(how, w), true, w);
  encode(p.how, w, amax[0], p.codes[0], p.scales[0], p.global[0]);
  finish(p, amax);
  return p;
}

GpuPacked GpuOperands::packed_rows(const Use& use, const at::Tensor& x, const Tokens& tokens,
                                   const std::vector<Channels>& given, const at::Tensor& amax,
                                   const NoiseSource& noise) const {
  const kinora_cuda_low how = format_.on_gpu(use);
  const int64_t cols = x.size(2);
  const auto channels = without_noise(how, given, cols);
  const bool whole = channels.size() == 1,
             one = whole && tokens.runs.size() == 1 && tokens.runs[0].count == tokens.rows;
  GpuPacked p = room_for(how, {tokens.rows, cols}, x.size(0), one && swizzles(how, x),
                         static_cast<int64_t>(tokens.order.size()) == tokens.rows, x);
  const auto part = [&](const at::Tensor& of, int64_t b, const Run& run, int64_t first, int64_t count) {
    return matrix(of, b, tokens.rows).narrow(0, run.row, run.count).narrow(1, first, count);
  };
  for (int64_t b = 0; b < p.count; ++b)
    for (const Run& run : tokens.runs)
      for (const Channels& c : channels) {
        const kinora_cuda_low here = with_noise(p.how, noise, 0, noise_row(noise, b, run.index), c.global);
        const Shape before{1, c.first}, of{1, c.count};
        const at::Tensor codes = part(p.codes, b, run, low_code_bytes(how, before), low_code_bytes(how, of));
        const at::Tensor scales =
            one ? p.scales[b]
                : part(p.scales, b, run, low_scale_bytes(how, before), low_scale_bytes(how, of));
        const at::Tensor codes_here = codes.contiguous(), scales_here = scales.contiguous();
        encode(here, part(x, b, run, c.first, c.count).contiguous(), amax[b], codes_here, scales_here,
               p.global[b]);
        if (whole) continue;
        codes.copy_(codes_here);
        scales.copy_(scales_here);
      }
  finish(p, amax);
  return p;
}

std::vector<at::Tensor> GpuOperands::columns_of(const at::Tensor& x, const Tokens& tokens) const {
  const int64_t tile = format_.group();
  std::vector<at::Tensor> out;
  for (const Run& s : tokens.stretches) {
    const at::Tensor some = at_tokens(x, tokens, s);
    const int64_t more = (tile - s.count % tile) % tile;
    out.push_back(more ? at::constant_pad_nd(some, {0, 0, 0, more}) : some);
  }
  return out;
}

std::vector<GpuPacked> GpuOperands::packed_columns(const Use& use, const std::vector<at::Tensor>& columns,
                                                   const Tokens& tokens, const std::vector<Channels>& given,
                                                   const at::Tensor& amax, const NoiseSource& noise) const {
  kinora_cuda_low how = format_.on_gpu(use);
  how.flags |= KINORA_LOW_COLUMN_MAJOR;
  std::vector<GpuPacked> out;
  for (size_t i = 0; i < columns.size(); ++i) {
    const at::Tensor& x = columns[i];
    const int64_t rows = x.size(2), cols = x.size(1);
    const auto channels = without_noise(how, given, rows);
    GpuPacked p = room_for(how, {rows, cols}, x.size(0), channels.size() == 1 && swizzles(how, x), true, x);
    for (int64_t b = 0; b < p.count; ++b)
      for (const Channels& c : channels) {
        const auto part = [&](const at::Tensor& of) {
          return channels.size() == 1 ? of[b] : matrix(of, b, rows).narrow(0, c.first, c.count);
        };
        encode(with_noise(p.how, noise, 1, noise_row(noise, b, c.global), tokens.stretches[i].index),
               x[b].narrow(1, c.first, c.count).contiguous(), amax[b], part(p.codes), part(p.scales),
               p.global[b]);
      }
    finish(p, amax);
    out.push_back(std::move(p));
  }
  return out;
}

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

at::Tensor GpuOperands::rows_product(const GpuPacked& a, const GpuPacked& b, bool wide) const {
  if (has_tensor_cores(a, b, wide)) {
    const at::Tensor out =
        at::empty({a.count, a.shape.rows, b.shape.rows}, a.codes.options().dtype(at::kFloat));
    for (int64_t i = 0; i < a.count; ++i) by_tensor_cores(a, i, b, 0, out[i]);
    return out;
  }
  const at::Tensor factor = (a.factor * b.factor).to(wide ? at::kDouble : at::kFloat).view({-1, 1, 1}),
                   x = tiles(a).flatten(0, 1), y = tiles(b)[0];
  return multiplied(x, y.t(), wide).unflatten(0, {a.count, a.shape.rows}).mul_(factor);
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
  const int64_t unit = is_nvfp4(a.how) ? 32 : 16;
  if (wide || a.shape.cols % unit != 0 || b.shape.rows % 16 != 0) return false;
  if (a.how.format == KINORA_LOW_E5M2 && b.how.format == KINORA_LOW_E5M2) return false;
  if (is_nvfp4(a.how) || is_mx(a.how))
    return low_is(a.how, KINORA_LOW_SWIZZLED) && low_is(b.how, KINORA_LOW_SWIZZLED);
  return cuda::low_is_one_scale(a.how) && capability(a.codes) >= 89;
}

// out: [M, N] float32.
void GpuOperands::by_tensor_cores(const GpuPacked& a, int64_t i, const GpuPacked& b, int64_t j,
                                  at::Tensor out) const {
  const auto codes = [](const GpuPacked& p, int64_t k) {
    const auto type = is_nvfp4(p.how)                   ? at::ScalarType::Float4_e2m1fn_x2
                      : p.how.format == KINORA_LOW_E4M3 ? at::ScalarType::Float8_e4m3fn
                                                        : at::ScalarType::Float8_e5m2;
    return matrix(p.codes, k, p.shape.rows).view(type);
  };
  const bool one_scale = cuda::low_is_one_scale(a.how);
  const auto scales = [&](const GpuPacked& p, int64_t k) {
    if (one_scale) return p.factor[k].to(at::kFloat);
    return p.scales[k].view(is_nvfp4(p.how) ? at::ScalarType::Float8_e4m3fn : at::ScalarType::Float8_e8m0fnu);
  };
  at::_scaled_mm_out(out, codes(a, i), codes(b, j).t(), scales(a, i), scales(b, j), {}, {}, at::kFloat,
                     /*use_fast_accum=*/false);
  if (!one_scale) out.mul_((a.factor[i] * b.factor[j]).to(at::kFloat));
}

Sums GpuOperands::sums(const GpuPacked& p, const at::Tensor& x, const Tokens* tokens) const {
  const at::Tensor all = decoded(p, at::kFloat, p.global);
  at::Tensor codes = p.codes.view({p.count, p.shape.rows, p.codes.numel() / (p.count * p.shape.rows)});
  if (is_nvfp4(p.how))
    codes = at::stack({codes.bitwise_and(7), codes.bitwise_right_shift(4).bitwise_and(7)}, 3)
                .flatten(2)
                .narrow(2, 0, p.shape.cols);
  else
    codes = codes.bitwise_and(0x7f);
  const int64_t largest = is_nvfp4(p.how) ? 7 : p.how.format == KINORA_LOW_E4M3 ? 0x7e : 0x7b;
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
