#include "plugins/precision/quantised/gpu_operands.hpp"

#include <ATen/ATen.h>

#include "kernels/cuda/low.hpp"
#include "kinora/aten.hpp"

namespace kinora::quantised {
namespace {

using cuda::low_code_bytes;
using cuda::low_is;
using cuda::low_scale_bytes;

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
                                        int64_t samples, const at::Tensor& like) const {
  kinora_cuda_low how = format_.on_gpu(use);
  how.flags |= KINORA_LOW_COLUMN_MAJOR;
  std::vector<at::Tensor> all;
  for (const at::Tensor& x : columns) {
    const at::Tensor raw = at::zeros({samples, 4}, x.options().dtype(at::kFloat));
    for (int64_t b = 0; b < samples; ++b) amax(how, x[b], raw[b]);
    all.push_back(magnitudes(raw));
  }
  if (all.empty())
    all.push_back(at::zeros({samples}, like.options().dtype(at::kFloat)));  // a rank without tokens
  return with_room(at::stack(all).amax(0));
}

// Swizzled scales are for the tensor cores of Blackwell.
bool GpuOperands::swizzles(const kinora_cuda_low& how, const at::Tensor& x) const {
  return (cuda::low_is_nvfp4(how) || cuda::low_is_mx(how)) && capability(x) >= 100;
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
  const at::Tensor g = p.global.select(1, 0).to(at::kDouble),
                   of = cuda::low_is_nvfp4(p.how) ? g.reciprocal() : g;
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
    return matrix_of(of, b, tokens.rows).narrow(0, run.row, run.count).narrow(1, first, count);
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
          return channels.size() == 1 ? of[b] : matrix_of(of, b, rows).narrow(0, c.first, c.count);
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

}  // namespace kinora::quantised
