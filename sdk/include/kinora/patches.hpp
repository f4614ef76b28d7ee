// Patches of a latent as tokens, and back.
//
// B batch, C channels, F h w tokens in frames, rows and columns, of pt x ph x pw numbers of each channel.
#pragma once
#include <array>

#include <ATen/ATen.h>

#include "kinora/abi/base.h"

KINORA_SDK_BEGIN

namespace kinora {

// The order of a patch's numbers within a token, outermost first.
enum class PatchOrder {
  channels_first,  // C, pt, ph, pw: as the kernel of a convolution
  channels_last,   // pt, ph, pw, C: Wan's output
  space_first,     // ph, pw, pt, C: NeMo's, and the output of Cosmos
};

namespace detail {
// Dimensions of [B, C, F, pt, h, ph, w, pw].
inline std::array<int64_t, 4> dims_of(PatchOrder order) {
  if (order == PatchOrder::channels_first) return {1, 3, 5, 7};
  return order == PatchOrder::channels_last ? std::array<int64_t, 4>{3, 5, 7, 1}
                                            : std::array<int64_t, 4>{5, 7, 3, 1};
}
}  // namespace detail

// x [B, C, F * pt, h * ph, w * pw] -> [B, F * h * w, C * pt * ph * pw]
inline at::Tensor patchify(const at::Tensor& x, const std::array<int64_t, 3>& patch, PatchOrder order) {
  const auto [pt, ph, pw] = patch;
  const auto F = x.size(2) / pt, h = x.size(3) / ph, w = x.size(4) / pw;
  const auto inner = detail::dims_of(order);
  return x.reshape({x.size(0), x.size(1), F, pt, h, ph, w, pw})
      .permute({0, 2, 4, 6, inner[0], inner[1], inner[2], inner[3]})
      .reshape({x.size(0), F * h * w, x.size(1) * pt * ph * pw});
}

// The inverse: x [B, F * h * w, C * pt * ph * pw], tokens: F, h, w.
inline at::Tensor unpatchify(const at::Tensor& x, const std::array<int64_t, 3>& tokens,
                             const std::array<int64_t, 3>& patch, PatchOrder order) {
  const auto [F, h, w] = tokens;
  const auto [pt, ph, pw] = patch;
  const auto B = x.size(0), C = x.size(2) / (pt * ph * pw);
  const int64_t sizes[] = {B, C, F, pt, h, ph, w, pw};
  const auto inner = detail::dims_of(order);
  std::array<int64_t, 8> shape{B, F, h, w}, back{};
  const int64_t outer[] = {0, 2, 4, 6};
  for (size_t i = 0; i < 4; ++i) {
    shape[4 + i] = sizes[inner[i]];
    back[static_cast<size_t>(outer[i])] = static_cast<int64_t>(i);
    back[static_cast<size_t>(inner[i])] = static_cast<int64_t>(4 + i);
  }
  return x.reshape(shape).permute(back).reshape({B, C, F * pt, h * ph, w * pw});
}

}  // namespace kinora

KINORA_SDK_END
