// FP8 by kernels/fp8: E4M3 for what is known in the forward, E4M3 or E5M2 for gradients.
#pragma once
#include <string_view>

#include "kernels/fp8/quantize.hpp"
#include "plugins/precision/quantised/format.hpp"

namespace kinora::quantised {

// "exact", "up" or "floor".
fp8::ScaleRule fp8_scale_rule(std::string_view);

class Fp8Format final : public Format {
 public:
  enum class Scaling { tensor, block, mx };
  struct Recipe {
    Scaling scaling = Scaling::tensor;
    fp8::Format gradients = fp8::Format::e5m2;
    fp8::ScaleRule rule = fp8::ScaleRule::exact;
  };
  explicit Fp8Format(const Recipe& recipe) : recipe_(recipe) {}

  const char* name() const override { return "FP8"; }
  int64_t group() const override {
    return recipe_.scaling == Scaling::tensor ? 1 : recipe_.scaling == Scaling::mx ? 32 : 128;
  }
  bool square() const override { return recipe_.scaling != Scaling::mx; }
  float amax(const Use&, const Shape&, const float* x) const override;
  int64_t code_bytes(const Shape& n) const override { return n.rows * n.cols; }
  int64_t scale_bytes(const Use&, const Shape& n) const override;
  float encode(const Use&, const Shape&, const float* x, float amax, const Noise&, uint8_t* codes,
               uint8_t* scales) const override;
  void decode(const Use&, const Shape&, const uint8_t* codes, const uint8_t* scales, float global,
              float* x) const override;
  kinora_cuda_low on_gpu(const Use&) const override;
  Sums sums(const Use&, const Shape&, const float* x, const uint8_t* codes,
            const float* decoded) const override;

 private:
  fp8::Options options(const Use&) const;
  Recipe recipe_;
};

}  // namespace kinora::quantised
