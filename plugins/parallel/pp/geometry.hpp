// Shapes and dtypes of the tensors between two stages, as numbers that can be sent before
// them.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

namespace kinora::pp {

struct Geometry {
  struct One {
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    bool operator==(const One&) const = default;
  };
  std::vector<One> tensors;
  bool operator==(const Geometry&) const = default;

  static Geometry of(const std::vector<at::Tensor>& tensors);
  // int64 [kNumbers]. Throws kinora::Error(KINORA_UNSUPPORTED) for more tensors or dimensions than fit.
  static constexpr int64_t kTensors = 8, kDims = 8, kNumbers = 1 + kTensors * (2 + kDims);
  at::Tensor encoded(at::Device device) const;
  static Geometry decoded(const at::Tensor& numbers);
  std::vector<at::Tensor> made(at::Device device) const;  // uninitialised
};

}  // namespace kinora::pp
