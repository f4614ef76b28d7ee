#include "plugins/precision/quantised/fp8_format.hpp"

#include <cmath>
#include <limits>

#include "kernels/fp4/quantize.hpp"

namespace kinora::quantised {

fp8::ScaleRule fp8_scale_rule(std::string_view name) {
  return name == "up" ? fp8::ScaleRule::up : name == "floor" ? fp8::ScaleRule::floor : fp8::ScaleRule::exact;
}

fp8::Options Fp8Format::options(const Use& use) const {
  fp8::Options o;
  o.rule = recipe_.rule;
  if (use.operand == Operand::gradient) o.format = recipe_.gradients;
  if (recipe_.scaling == Scaling::mx) o.scaling = fp8::Scaling::mx;
  if (recipe_.scaling == Scaling::block)
    o.scaling = use.operand == Operand::weight ? fp8::Scaling::square : fp8::Scaling::row;
  return o;
}

float Fp8Format::amax(const Use&, const Shape& n, const float* x) const {
  const fp4::Amax found = fp4::find_amax(n, x, false);
  return found.non_finite ? std::numeric_limits<float>::infinity() : found.value;
}

// The scale of a whole matrix is what encode() returns.
int64_t Fp8Format::scale_bytes(const Use& use, const Shape& n) const {
  const auto scaling = options(use).scaling;
  return scaling == fp8::Scaling::tensor ? 0 : fp8::scale_bytes(n, scaling, false);
}

float Fp8Format::encode(const Use& use, const Shape& n, const float* x, float amax, const Noise&,
                        uint8_t* codes, uint8_t* scales) const {
  const auto o = options(use);
  float global = 1;
  fp8::quantize(n, x, o, amax, codes,
                o.scaling == fp8::Scaling::tensor ? static_cast<void*>(&global) : scales);
  return global;
}

void Fp8Format::decode(const Use& use, const Shape& n, const uint8_t* codes, const uint8_t* scales,
                       float global, float* x) const {
  const auto o = options(use);
  fp8::dequantize(n, codes, o.scaling == fp8::Scaling::tensor ? static_cast<const void*>(&global) : scales, o,
                  x);
}

kinora_cuda_low Fp8Format::on_gpu(const Use& use) const {
  const fp8::Options o = options(use);
  kinora_cuda_low how{};
  how.struct_size = sizeof how;
  how.format = o.format == fp8::Format::e4m3 ? KINORA_LOW_E4M3 : KINORA_LOW_E5M2;
  how.scaling = static_cast<uint32_t>(o.scaling);
  how.rule = static_cast<uint32_t>(o.rule);
  return how;
}

Sums Fp8Format::sums(const Use& use, const Shape& n, const float* x, const uint8_t* codes,
                     const float* decoded) const {
  const uint32_t largest = options(use).format == fp8::Format::e4m3 ? 0x7e : 0x7b;
  Sums out{};
  out.values = static_cast<double>(n.rows * n.cols);
  for (int64_t i = 0; i < n.rows * n.cols; ++i) {
    const double value = x[i], error = value - decoded[i];
    const uint32_t code = codes[i] & 0x7f;
    out.signal += value * value;
    out.noise += error * error;
    out.clipped += code == largest && std::fabs(x[i]) > std::fabs(decoded[i]);
    out.underflowed += code == 0 && x[i] != 0;
  }
  return out;
}

}  // namespace kinora::quantised
