#include "plugins/caches/kv/codes.hpp"

namespace kinora {
namespace {

constexpr double kLargest = 448, kLeastScale = 1e-30;

Tensor seen_as(const Tensor& x, int64_t dtype) { return op("aten::view", "dtype", {x, dtype}); }

}  // namespace

Codes coded(const Tensor& x) {
  const Tensor wide = x.to(KINORA_DTYPE_FLOAT32);
  const Tensor most = op("aten::amax", "", {op("aten::abs", "", {wide}), std::vector<int64_t>{3}, true});
  const Tensor scales = op("aten::clamp_min", "", {most * (1 / kLargest), kLeastScale});
  return {seen_as(op("aten::to", "dtype", {wide / scales, kE4m3}), KINORA_DTYPE_UINT8), scales};
}

Tensor e4m3(const Tensor& bytes) { return seen_as(bytes, kE4m3); }

Tensor decoded(const Codes& codes, int32_t dtype) {
  const auto wide = dtype == KINORA_DTYPE_FLOAT64 ? KINORA_DTYPE_FLOAT64 : KINORA_DTYPE_FLOAT32;
  return e4m3(codes.bytes).to(wide) * codes.scales.to(wide);
}

}  // namespace kinora
