#include "plugins/parallel/pp/geometry.hpp"

#include <ATen/ATen.h>

#include "kinora/error.hpp"

namespace kinora::pp {

using at::Tensor;

Geometry Geometry::of(const std::vector<Tensor>& tensors) {
  Geometry out;
  for (const auto& t : tensors) out.tensors.push_back({t.scalar_type(), t.sizes().vec()});
  return out;
}

Tensor Geometry::encoded(at::Device device) const {
  std::vector<int64_t> numbers{static_cast<int64_t>(tensors.size())};
  for (const auto& t : tensors) {
    const auto dims = static_cast<int64_t>(t.shape.size());
    if (static_cast<int64_t>(tensors.size()) > kTensors || dims > kDims)
      throw Error(KINORA_UNSUPPORTED, "pp: a block returns " + std::to_string(tensors.size()) +
                                          " tensors of up to " + std::to_string(dims) +
                                          " dimensions; at most 8 tensors of 8 dimensions are possible");
    numbers.push_back(static_cast<int64_t>(t.dtype));
    numbers.push_back(dims);
    numbers.insert(numbers.end(), t.shape.begin(), t.shape.end());
  }
  numbers.resize(kNumbers, 0);
  return at::tensor(numbers, at::kLong).to(device);
}

Geometry Geometry::decoded(const Tensor& numbers) {
  const Tensor here = numbers.cpu();
  const int64_t* at = here.const_data_ptr<int64_t>();
  Geometry out;
  out.tensors.resize(static_cast<size_t>(*at++));
  for (auto& t : out.tensors) {
    t.dtype = static_cast<at::ScalarType>(*at++);
    const int64_t dims = *at++;
    t.shape.assign(at, at + dims);
    at += dims;
  }
  return out;
}

std::vector<Tensor> Geometry::made(at::Device device) const {
  std::vector<Tensor> out;
  for (const auto& t : tensors)
    out.push_back(at::empty(t.shape, at::TensorOptions().dtype(t.dtype).device(device)));
  return out;
}

}  // namespace kinora::pp
