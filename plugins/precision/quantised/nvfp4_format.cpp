#include "plugins/precision/quantised/nvfp4_format.hpp"

#include <cmath>
#include <limits>

namespace kinora::quantised {

fp4::ScaleRule scale_rule(std::string_view name) {
  using enum fp4::ScaleRule;
  return name == "mse"        ? mse
         : name == "mae"      ? mae
         : name == "abs_max"  ? abs_max
         : name == "static_6" ? static_6
         : name == "static_4" ? static_4
                              : none;
}

fp4::Options Nvfp4Format::options(const Use& use) const {
  fp4::Options o;
  o.rule = use.operand == Operand::activation ? recipe_.activations
           : use.operand == Operand::weight   ? recipe_.weights
                                              : recipe_.gradients;
  o.square = use.operand == Operand::weight && recipe_.square;
  o.hadamard = use.along_tokens && recipe_.hadamard;
  o.stochastic = use.operand == Operand::gradient && recipe_.stochastic;
  return o;
}

float Nvfp4Format::amax(const Use& use, const Shape& n, const float* x) const {
  const fp4::Amax found = fp4::find_amax(n, x, options(use).hadamard);
  return found.non_finite ? std::numeric_limits<float>::infinity() : found.value;
}

float Nvfp4Format::encode(const Use& use, const Shape& n, const float* x, float amax, const Noise& noise,
                          uint8_t* codes, uint8_t* scales) const {
  fp4::Options o = options(use);
  o.noise = noise;
  return fp4::quantize(n, x, o, amax, codes, scales);
}

void Nvfp4Format::decode(const Use&, const Shape& n, const uint8_t* codes, const uint8_t* scales,
                         float global, float* x) const {
  fp4::dequantize(n, codes, scales, false, global, x);
}

kinora_cuda_low Nvfp4Format::on_gpu(const Use& use) const {
  const fp4::Options o = options(use);
  kinora_cuda_low how{};
  how.struct_size = sizeof how;
  how.format = KINORA_LOW_NVFP4;
  how.rule = static_cast<uint32_t>(o.rule);
  how.flags = (o.square ? KINORA_LOW_SQUARE : 0u) | (o.hadamard ? KINORA_LOW_HADAMARD : 0u) |
              (o.stochastic ? KINORA_LOW_STOCHASTIC : 0u);
  return how;
}

Sums Nvfp4Format::sums(const Use&, const Shape& n, const float* x, const uint8_t* codes,
                       const float* decoded) const {
  Sums out{};
  out.values = static_cast<double>(n.rows * n.cols);
  for (int64_t row = 0; row < n.rows; ++row)
    for (int64_t col = 0; col < n.cols; ++col) {
      const int64_t i = row * n.cols + col;
      const double value = x[i], error = value - decoded[i];
      const int code = codes[row * fp4::code_bytes_a_row(n) + col / 2] >> (col % 2 * 4) & 7;
      out.signal += value * value;
      out.noise += error * error;
      out.clipped += code == 7 && std::fabs(x[i]) > std::fabs(decoded[i]);
      out.underflowed += code == 0 && x[i] != 0;
    }
  return out;
}

}  // namespace kinora::quantised
