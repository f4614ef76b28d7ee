#include "core/torch/context/mix.hpp"

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

namespace {
constexpr double kLargest = 1e6;
}

at::Tensor scale_for(const at::Tensor& sigma, const at::Tensor& x) {
  const bool per_frame = sigma.dim() == 2;
  if (sigma.dim() < 1 || sigma.dim() > 2 || x.dim() < (per_frame ? 3 : 1) || sigma.size(0) != x.size(0) ||
      (per_frame && sigma.size(1) != x.size(2)))
    raise(KINORA_INVALID, "a noise level of shape {} does not fit a latent of shape {}",
          c10::str(sigma.sizes()), c10::str(x.sizes()));
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[0] = sigma.size(0);
  if (per_frame) shape[2] = sigma.size(1);
  return sigma.reshape(shape);
}

Mixed remixed(const Mixed& given, uint32_t from, uint32_t to) {
  if (from == to) return given;
  const at::Tensor s = given.sigma.to(at::kDouble);
  if (to == KINORA_MIX_BLEND) return {given.x / (1 + scale_for(s, given.x)), s / (1 + s)};
  const at::Tensor rest = (1 - s).clamp_min(1 / (1 + kLargest));
  return {given.x / scale_for(rest, given.x), (1 - rest) / rest};
}

}  // namespace kinora::core
