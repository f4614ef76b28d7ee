// NVFP4 by kernels/fp4: E2M1 codes, E4M3 scales of 16 values and a float32 scale of the matrix.
#pragma once
#include <string_view>

#include "kernels/fp4/quantize.hpp"
#include "plugins/precision/quantised/format.hpp"

namespace kinora::quantised {

// "none", "mse", "mae", "abs_max", "static_6" or "static_4".
fp4::ScaleRule scale_rule(std::string_view);

class Nvfp4Format final : public Format {
 public:
  struct Recipe {
    fp4::ScaleRule activations, weights, gradients;
    bool square = true;      // 16x16 blocks of weights
    bool stochastic = true;  // rounding of gradients
    bool hadamard = true;    // on both operands of a weight's gradient
  };
  explicit Nvfp4Format(const Recipe& recipe) : recipe_(recipe) {}

  const char* name() const override { return "NVFP4"; }
  int64_t group() const override { return fp4::kBlock; }
  bool square() const override { return recipe_.square; }
  float amax(const Use&, const Shape&, const float* x) const override;
  int64_t code_bytes(const Shape& n) const override { return fp4::code_bytes(n); }
  int64_t scale_bytes(const Use&, const Shape& n) const override { return fp4::scale_bytes(n, false); }
  float encode(const Use&, const Shape&, const float* x, float amax, const Noise&, uint8_t* codes,
               uint8_t* scales) const override;
  void decode(const Use&, const Shape&, const uint8_t* codes, const uint8_t* scales, float global,
              float* x) const override;
  kinora_cuda_low on_gpu(const Use&) const override;
  Sums sums(const Use&, const Shape&, const float* x, const uint8_t* codes,
            const float* decoded) const override;

 private:
  fp4::Options options(const Use&) const;
  Recipe recipe_;
};

}  // namespace kinora::quantised
