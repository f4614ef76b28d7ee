// The formulas of kernels/fp8/scale.hpp and kernels/fp4/scale.hpp in libtorch's operations, each of which rounds
// once, as there.
#include <ATen/ATen.h>

#include "kernels/fp4/arithmetic.hpp"
#include "kernels/wire/wire.hpp"

namespace kinora::wire::by_ops {
namespace {

using at::Tensor;

constexpr int64_t kRow = 128, kBlock = 16;

int64_t blocks(int64_t cols, int64_t block) { return (cols + block - 1) / block; }

// x [parts, rows, cols] -> float32 [parts, rows, blocks, block], padded with zeros.
Tensor in_blocks(const Tensor& x, int64_t block) {
  const int64_t missing = blocks(x.size(2), block) * block - x.size(2);
  const Tensor values = x.to(at::kFloat);
  return (missing ? at::constant_pad_nd(values, {0, missing}) : values).unflatten(2, {-1, block});
}

Tensor as_bytes(const Tensor& x) { return x.contiguous().view(at::kByte).flatten(1); }

// Bytes [parts, rows, n] of numbers of `dtype`, which begin at byte `at`. Copies them, since a number needs
// an address that its size divides.
Tensor numbers_at(const Tensor& bytes, int64_t at, int64_t rows, int64_t n, at::ScalarType dtype) {
  const auto size = static_cast<int64_t>(at::elementSize(dtype));
  return bytes.narrow(1, at, rows * n * size)
      .clone(at::MemoryFormat::Contiguous)
      .view(dtype)
      .view({bytes.size(0), rows, n});
}

// A tensor of one number: libtorch divides by plain numbers, and plain numbers by tensors, with two roundings.
Tensor number(double x, const Tensor& like) { return at::full({}, x, like.options().dtype(at::kFloat)); }

// largest / amax, at most the largest float32; 1 for zeros.
Tensor scale_to(double largest, const Tensor& amax) {
  const Tensor scale = at::div(number(largest, amax), amax).clamp_max(fp4::kLargest);
  return at::where(amax == 0, at::ones_like(amax), scale);
}

Tensor packed_fp8(const Tensor& x) {
  const Tensor v = in_blocks(x, kRow), amax = v.abs().amax(-1);
  const Tensor multiply = scale_to(448, amax);
  const Tensor codes = (v * multiply.unsqueeze(-1)).clamp(-448, 448).to(at::kFloat8_e4m3fn);
  return at::cat(
      {as_bytes(codes.view(at::kByte).flatten(2).narrow(2, 0, x.size(2))), as_bytes(multiply.reciprocal())},
      1);
}

Tensor unpacked_fp8(const Tensor& bytes, int64_t rows, int64_t cols) {
  const Tensor q = numbers_at(bytes, 0, rows, cols, at::kFloat8_e4m3fn).to(at::kFloat),
               scales = numbers_at(bytes, rows * cols, rows, blocks(cols, kRow), at::kFloat);
  return q * scales.repeat_interleave(kRow, 2).narrow(2, 0, cols);
}

// |y| to the code of the nearest number, ties to even: steps of 1/2 below 2, of 1 below 4, of 2 above.
Tensor nearest_e2m1(const Tensor& y) {
  const Tensor a = y.abs().clamp_max(6);
  const Tensor code = at::where(a < 2, (a * 2).round(), at::where(a < 4, a.round() + 2, (a / 2).round() + 4));
  return code.to(at::kByte) + at::signbit(y).to(at::kByte) * 8;
}

Tensor packed_nvfp4(const Tensor& x) {
  const Tensor amax = x.to(at::kFloat).abs().amax({1, 2}, true);
  const Tensor global = scale_to(448 * 6, amax);
  const Tensor huge = global > 0x1p116, one = at::ones_like(global);
  const Tensor encode = at::where(huge, one, global);
  const Tensor v = in_blocks(x, kBlock) * at::where(huge, global, one).unsqueeze(-1);
  const Tensor scales =
      (at::div(v.abs().amax(-1), number(6, x)) * encode).clamp_max(448).to(at::kFloat8_e4m3fn);
  const Tensor value = scales.to(at::kFloat);
  const Tensor multiply =
      at::where(value == 0, at::zeros_like(value), (value * encode.reciprocal()).reciprocal());
  Tensor codes = nearest_e2m1(v * multiply.unsqueeze(-1)).flatten(2).narrow(2, 0, x.size(2));
  if (x.size(2) % 2) codes = at::constant_pad_nd(codes, {0, 1});
  codes = codes.unflatten(2, {-1, 2});
  return at::cat({as_bytes(codes.select(3, 0) + codes.select(3, 1) * 16), as_bytes(scales), as_bytes(global)},
                 1);
}

Tensor unpacked_nvfp4(const Tensor& bytes, int64_t rows, int64_t cols) {
  const int64_t pairs = (cols + 1) / 2, across = blocks(cols, kBlock);
  const Tensor both = bytes.narrow(1, 0, rows * pairs).view({bytes.size(0), rows, pairs});
  const Tensor codes =
      at::stack({both.bitwise_and(15), both.div(16, "floor")}, 3).flatten(2).narrow(2, 0, cols);
  const Tensor table = at::tensor({0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F,
                                   -2.0F, -3.0F, -4.0F, -6.0F},
                                  bytes.options().dtype(at::kFloat));
  const Tensor scales = numbers_at(bytes, rows * pairs, rows, across, at::kFloat8_e4m3fn).to(at::kFloat),
               global = numbers_at(bytes, rows * (pairs + across), 1, 1, at::kFloat);
  return table.index({codes.to(at::kLong)}) *
         (scales / global).repeat_interleave(kBlock, 2).narrow(2, 0, cols);
}

}  // namespace

Tensor packed(const Tensor& x, Format format) {
  return format == Format::fp8 ? packed_fp8(x) : packed_nvfp4(x);
}

Tensor unpacked(const Tensor& bytes, int64_t rows, int64_t cols, Format format, at::ScalarType dtype) {
  return (format == Format::fp8 ? unpacked_fp8(bytes, rows, cols) : unpacked_nvfp4(bytes, rows, cols))
      .to(dtype);
}

}  // namespace kinora::wire::by_ops
