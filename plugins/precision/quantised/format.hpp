// A format of few bits for the operands of linear layers: what NVFP4 and FP8 differ in.
#pragma once
#include <cstdint>

#include "kernels/fp4/layout.hpp"
#include "kernels/fp4/philox.hpp"
#include "kinora/abi/cuda.h"
#include "kinora/abi/rounding.h"

namespace kinora::quantised {

using fp4::Noise;
using fp4::Shape;

enum class Operand { activation, weight, gradient };

// An operand in a product. Blocks are along its rows, which the product sums over: channels, or tokens for
// the gradient of the weight. A weight is [out, in] for the result, [in, out] for the gradient of the input.
struct Use {
  Operand operand = Operand::activation;
  bool along_tokens = false;
};

using Sums = kinora_rounding_sums;
inline void add(Sums& to, const Sums& more) {
  to.signal += more.signal, to.noise += more.noise, to.values += more.values;
  to.clipped += more.clipped, to.underflowed += more.underflowed;
}

// All functions are [any-thread].
class Format {
 public:
  virtual ~Format() = default;
  virtual const char* name() const = 0;
  // Values in a row that share a scale; 1: the whole matrix does.
  virtual int64_t group() const = 0;
  // Blocks of a weight are group x group, so that the transposed weight has the same numbers.
  virtual bool square() const = 0;
  // The largest magnitude, after a transform that the use has, on which all scales of a matrix depend;
  // infinite if a value is not finite.
  virtual float amax(const Use&, const Shape&, const float* x) const = 0;
  virtual int64_t code_bytes(const Shape&) const = 0;
  virtual int64_t scale_bytes(const Use&, const Shape&) const = 0;
  // Rows of a matrix, from a multiple of group() on. amax: the whole matrix's, finite. Returns the scale of
  // all blocks.
  virtual float encode(const Use&, const Shape&, const float* x, float amax, const Noise&, uint8_t* codes,
                       uint8_t* scales) const = 0;
  virtual void decode(const Use&, const Shape&, const uint8_t* codes, const uint8_t* scales, float global,
                      float* x) const = 0;
  // encode()'s choices as libkinora_cuda takes them, without noise.
  virtual kinora_cuda_low on_gpu(const Use&) const = 0;
  // x: the values that were encoded, without a transform.
  virtual Sums sums(const Use&, const Shape&, const float* x, const uint8_t* codes,
                    const float* decoded) const = 0;
};

}  // namespace kinora::quantised
