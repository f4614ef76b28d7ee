#include "core/torch/weights/four_bits.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kernels/fp4/quantize.hpp"

namespace kinora::core {
namespace {

const uint8_t* bytes_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

}  // namespace

at::Tensor decoded(const SafeTensor& t) {
  const PackedMatrix& m = *t.packed;
  const auto bad = std::count_if(m.scales.begin(), m.scales.end(), [](std::byte scale) {
    return (scale & std::byte{0x80}) != std::byte{0} || scale == std::byte{0x7f};
  });
  if (bad != 0)
    raise(KINORA_ERROR_DATA,
          "'{}': {} of {} scales of its four-bit blocks are NaN or negative; is the file whole?", t.name, bad,
          m.scales.size());
  at::Tensor out = at::empty({m.rows, m.cols}, at::kFloat);
  fp4::dequantize({m.rows, m.cols}, bytes_of(m.codes), bytes_of(m.scales), m.swizzled, m.global,
                  out.data_ptr<float>());
  if (m.rows != t.shape[0] || m.cols != t.shape[1])
    out = out.narrow(0, 0, t.shape[0]).narrow(1, 0, t.shape[1]).contiguous();
  if (m.multiply != 1) out.mul_(m.multiply);
  if (m.divide != 1) out.div_(m.divide);
  return out;
}

}  // namespace kinora::core
