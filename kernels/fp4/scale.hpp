// The two scales of NVFP4. A tensor's global scale g (float32) brings its largest magnitude to 6 times the
// largest block scale; a block's scale s (E4M3) brings its largest magnitude to 6, or to 4. A value x has the
// code E2M1(x / (s / g)) and decodes to q s / g.
//
//   rule      g              s
//   none      448 * 6 / amax E4M3(block_amax * (g * (1 / 6)))   TransformerEngine's rule
//   static_6  448 * 6 / amax E4M3(block_amax / 6 * g)           Four Over Six (arXiv 2512.02010), and below
//   static_4  448 * 4 / amax E4M3(block_amax / 4 * g)
//   mse, mae, abs_max: g = 256 * 6 / amax; s is s6 = E4M3(block_amax / 6 * g), or, where the squared, absolute
//             or largest error of the block rounded to nearest is less, s4 = E4M3(1.5 * (block_amax / 6 * g))
//
// A tensor of zeros has g = 1. g is limited to the largest float32: below an amax of 8e-36 block scales
// shrink instead, down to 2e-41, where codes become zeros. Where g exceeds 2^116, 1 / (s / g) could overflow,
// so x is multiplied by g first.
#pragma once
#include "kernels/fp4/e2m1.hpp"
#include "kernels/fp4/e4m3.hpp"

namespace kinora::fp4 {

enum class ScaleRule : int32_t { none, mse, mae, abs_max, static_6, static_4 };

KINORA_BOTH inline bool is_adaptive(ScaleRule rule) {
  return rule == ScaleRule::mse || rule == ScaleRule::mae || rule == ScaleRule::abs_max;
}

struct TensorScale {
  float global;  // g
  float first;   // multiplies x before anything else
  float encode;  // g / first
  float decode;  // 1 / encode
};

KINORA_BOTH inline TensorScale tensor_scale(ScaleRule rule, float amax) {
  const float target = is_adaptive(rule) ? 256.0f * 6 : rule == ScaleRule::static_4 ? 448.0f * 4 : 448.0f * 6;
  float global = amax > 0 ? div(target, amax) : 1.0f;
  if (!(global < kLargest)) global = kLargest;
  const bool huge = global > 0x1p116f;
  const float encode = huge ? 1.0f : global;
  return {global, huge ? global : 1.0f, encode, div(1.0f, encode)};
}

struct BlockScale {
  uint32_t code;   // E4M3
  float value;     // of the code
  float multiply;  // x * first * multiply is rounded to E2M1
};

// The block scale before it is rounded to E4M3.
KINORA_BOTH inline float exact_scale(ScaleRule rule, const TensorScale& tensor, float block_amax) {
  if (rule == ScaleRule::none) return mul(block_amax, mul(tensor.encode, 1.0f / 6));
  return mul(div(block_amax, rule == ScaleRule::static_4 ? 4.0f : 6.0f), tensor.encode);
}

KINORA_BOTH inline BlockScale scale_of_code(const TensorScale& tensor, uint32_t code) {
  const float value = e4m3_value(code);
  return {code, value, code != 0 ? div(1.0f, mul(value, tensor.decode)) : 0.0f};
}

// stretch: 1, or 1.5 for the candidate that brings the largest magnitude to 4.
KINORA_BOTH inline BlockScale block_scale(ScaleRule rule, const TensorScale& tensor, float block_amax,
                                          float stretch) {
  return scale_of_code(tensor, e4m3_code(mul(exact_scale(rule, tensor, block_amax), stretch)));
}

// The factor of a code's number.
KINORA_BOTH inline float decode_multiply(uint32_t scale_code, float global) {
  return div(e4m3_value(scale_code), global);
}

}  // namespace kinora::fp4
