#include "plugins/caches/kv/nvfp4.hpp"

#include "plugins/caches/kv/codes.hpp"

namespace kinora {
namespace {

constexpr int64_t kBlock = 16;
constexpr double kLargestE2m1 = 6, kLargestE4m3 = 448, kLargestGlobal = 0x1p100;
constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

// x [B, S, H, d] -> float32 [B, S, H, blocks, 16].
Tensor in_blocks(const Tensor& x) {
  const auto n = x.sizes();
  const int64_t blocks = (n[3] + kBlock - 1) / kBlock, missing = blocks * kBlock - n[3];
  const Tensor wide = x.to(KINORA_DTYPE_FLOAT32);
  const Tensor whole =
      missing ? op("aten::constant_pad_nd", "", {wide, std::vector<int64_t>{0, missing}}) : wide;
  return whole.reshape({n[0], n[1], n[2], blocks, kBlock});
}

Tensor amax_of(const Tensor& x, const std::vector<int64_t>& dims) {
  return op("aten::amax", "", {op("aten::abs", "", {x}), dims, true});
}

// |y| to the code of the nearest number, ties to the even code: steps of 1/2 below 2, of 1 below 4, of 2 above.
Tensor nearest_e2m1(const Tensor& y) {
  const Tensor a = op("aten::abs", "", {y});
  const auto codes_within = [&](double from, double to, double step) {
    return op("aten::round", "", {(op("aten::clamp", "", {a, from, to}) - from) * (1 / step)});
  };
  return codes_within(0, 2, 0.5) + codes_within(2, 4, 1) + codes_within(4, kLargestE2m1, 2);
}

// float32 [256, 2]: the numbers of the two codes of each byte.
Tensor numbers_of_bytes(const Tensor& like) {
  std::vector<double> numbers;
  for (int byte = 0; byte < 256; ++byte)
    for (const int code : {byte & 15, byte >> 4})
      numbers.push_back(code & 8 ? -kMagnitudes[code & 7] : kMagnitudes[code]);
  const Tensor table = tensor(numbers, {256, 2});
  const auto on = like.info();
  const int64_t device = on.device_type == KINORA_DL_CPU ? -1 : on.device_id;
  return op("aten::to", "device", {table, device, KINORA_DTYPE_FLOAT32});
}

// The bytes from `first` on as numbers of `dtype`; copied, since a number needs an address that its size divides.
Tensor numbers_at(const Tensor& bytes, int64_t first, int64_t n, int64_t dtype) {
  const Tensor part = op("aten::clone", "", {bytes.narrow(3, first, n)}).contiguous();
  return op("aten::view", "dtype", {part, dtype}).to(KINORA_DTYPE_FLOAT32);
}

}  // namespace

Tensor nvfp4_packed(const Tensor& x) {
  const Tensor v = in_blocks(x);
  const auto n = v.sizes();
  const Tensor amax = amax_of(v, {3, 4});
  // Divisions of tensors: libtorch divides by plain numbers with two roundings.
  const Tensor global =
      op("aten::clamp_max", "", {full_like(amax, kLargestE4m3 * kLargestE2m1) / amax, kLargestGlobal});
  const Tensor of_block = amax_of(v, {4});
  const Tensor exact =
      op("aten::clamp_max", "", {of_block / full_like(of_block, kLargestE2m1) * global, kLargestE4m3});
  const Tensor scales = op("aten::to", "dtype", {exact, kE4m3}), value = scales.to(KINORA_DTYPE_FLOAT32);
  const auto reciprocal = [](const Tensor& t) { return op("aten::reciprocal", "", {t}); };
  const Tensor multiply = op("aten::where", "self",
                             {op("aten::eq", "Scalar", {value, 0.0}), full_like(value, 0.0),
                              reciprocal(value * reciprocal(global))});
  const Tensor sign = op("aten::signbit", "", {v}).to(KINORA_DTYPE_FLOAT32);
  const Tensor codes =
      (nearest_e2m1(v * multiply) + sign * 8.0).reshape({n[0], n[1], n[2], n[3] * kBlock / 2, 2});
  const auto half = [&](int64_t i) { return op("aten::select", "int", {codes, 4, i}); };
  const auto as_bytes = [&](const Tensor& t) {
    return op("aten::view", "dtype", {t.contiguous().reshape({n[0], n[1], n[2], -1}), KINORA_DTYPE_UINT8});
  };
  return op("aten::cat", "",
            {std::vector<Tensor>{(half(0) + half(1) * 16.0).to(KINORA_DTYPE_UINT8), as_bytes(scales),
                                 as_bytes(global)},
             int64_t{3}});
}

Tensor nvfp4_unpacked(const Tensor& bytes, int64_t d) {
  const auto n = bytes.sizes();
  const int64_t blocks = (d + kBlock - 1) / kBlock, codes = blocks * kBlock / 2;
  const Tensor places =
      op("aten::to", "dtype", {bytes.narrow(3, 0, codes), KINORA_DTYPE_INT32}).reshape({-1});
  const Tensor numbers = op("aten::index_select", "", {numbers_of_bytes(bytes), int64_t{0}, places})
                             .reshape({n[0], n[1], n[2], blocks, kBlock});
  const Tensor scales =
      numbers_at(bytes, codes, blocks, kE4m3) / numbers_at(bytes, codes + blocks, 4, KINORA_DTYPE_FLOAT32);
  return (numbers * scales.reshape({n[0], n[1], n[2], blocks, 1}))
      .reshape({n[0], n[1], n[2], blocks * kBlock})
      .narrow(3, 0, d);
}

}  // namespace kinora
