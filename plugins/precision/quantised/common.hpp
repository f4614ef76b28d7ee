// The options that precisions of few bits share, and the link that they describe.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kinora/options.hpp"
#include "plugins/precision/quantised/quantised_link.hpp"

namespace kinora::quantised {

struct CommonOptions {
  std::string stream = "float32", attention = "bf16";
  std::vector<std::string> high = {"embedding", "head", "first 2", "last 15%"};
  int64_t until = 0;

  int32_t dtype() const {
    return stream == "bfloat16"  ? KINORA_DTYPE_BFLOAT16
           : stream == "float64" ? KINORA_DTYPE_FLOAT64
                                 : KINORA_DTYPE_FLOAT32;
  }
  // of_quantize: an option of quantize() that was given; empty: none.
  QuantisedLink::Options of_link(std::string of_quantize) const {
    return {high, until, stream == "float64", attention == "fp8", std::move(of_quantize)};
  }
  // An option of these that was given, which quantize() does not read; empty: none.
  std::string of_linear() const {
    const CommonOptions plain;
    return stream != plain.stream         ? "stream"
           : attention != plain.attention ? "attention"
           : high != plain.high           ? "high"
           : until != plain.until         ? "until"
                                          : "";
  }
};

// format: "NVFP4".
template <class Options>
void describe_common(Describe<Options>& d, const std::string& format) {
  d.option("stream", &CommonOptions::stream)
      .choices({"float32", "bfloat16", "float64"})
      .help("dtype of the residual stream; float64 also for sums, parameters and all that is not " + format +
            ", to compare layouts digit by digit");
  d.option("attention", &CommonOptions::attention)
      .choices({"bf16", "fp8"})
      .help(
          "queries, keys and values in bfloat16, or in E4M3 with a scale for each head; a GPU from Hopper on "
          "multiplies those in FP8 where cuDNN can, else in bfloat16");
  d.option("high", &CommonOptions::high)
      .help(
          "layers that stay in bfloat16: embedding, head, first N, last N (blocks, or a share such as 15%), "
          "or names of weights with * for any text; linear layers of text and conditions always do");
  d.option("until", &CommonOptions::until)
      .at_least(0)
      .unit("steps")
      .help("training step from which on all layers are in bfloat16; 0: none");
}

// of_linear: an option of linear layers that was given to quantize(); empty: none.
inline void refuse_of_linear(const std::string& of_linear) {
  if (of_linear.empty()) return;
  throw Error(KINORA_ERROR_INVALID,
              of_linear +
                  " is an option of linear layers and changes nothing in `kinora apply --method quantize`; "
                  "remove it");
}

// quantize()'s x [M, N], contiguous float32. Throws Error(KINORA_ERROR_INVALID) for other shapes and dtypes.
inline Tensor matrix_of(const Tensor& x, const std::string& format) {
  if (x.dim() != 2)
    throw Error(KINORA_ERROR_INVALID,
                "x has " + std::to_string(x.dim()) + " dimensions; " + format + " quantizes a matrix [M, N]");
  const int32_t type = x.dtype();
  if (type != KINORA_DTYPE_FLOAT16 && type != KINORA_DTYPE_BFLOAT16 && type != KINORA_DTYPE_FLOAT32 &&
      type != KINORA_DTYPE_FLOAT64)
    throw Error(KINORA_ERROR_INVALID, "x is not of a floating-point dtype; " + format +
                                          " quantizes float16, bfloat16, float32 and float64");
  return x.detach().to(KINORA_DTYPE_FLOAT32).contiguous();
}

// count: of the values without a code, in float32 and after a transform; given: x as it came.
inline void refuse_non_finite(const Tensor& given, uint64_t count, const std::string& format) {
  if (count == 0) return;
  const bool is_finite =
      *op("aten::all", "", {op("aten::isfinite", "", {given})}).to(KINORA_DTYPE_FLOAT32).data<float>() != 0;
  throw Error(KINORA_ERROR_INVALID,
              "x: " + std::to_string(count) + " of its " + std::to_string(given.numel()) + " values are " +
                  (is_finite ? "beyond float32's largest number, 3.4e38, as float32 or after the Hadamard "
                               "transform, which adds 16 of them; divide x by a power of two"
                             : "infinite or NaN; " + format + " has no codes for them"));
}

inline Tensor empty_like(const Tensor& x, std::vector<int64_t> shape, int32_t dtype) {
  kinora_tensor out = nullptr;
  check(tensors_api().empty(shape.data(), static_cast<int64_t>(shape.size()), dtype, x.get(), &out));
  return Tensor::adopt(out);
}

}  // namespace kinora::quantised
