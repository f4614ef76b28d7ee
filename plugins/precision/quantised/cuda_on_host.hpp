// The functions for matrices in few bits of a kinora_cuda_api, on tensors in main memory: each thread of the
// kernels' launches is run in turn (kernels/cuda/fp4_on_host.hpp). For tests without a GPU.
#pragma once
#include <ATen/ATen.h>

#include "kernels/cuda/fp4_on_host.hpp"
#include "kernels/cuda/fp8_on_host.hpp"
#include "kernels/cuda/low.hpp"
#include "kinora/aten.hpp"
#include "kinora/error.hpp"

namespace kinora::quantised::on_host {

using cuda::low_is;

inline fp4::Shape shape_of(const kinora_cuda_low& how, const at::Tensor& x) {
  if (!cuda::low_is_known(how) || x.dim() != 2 || !x.is_contiguous())
    throw Error(KINORA_ERROR_INVALID, "a matrix that the kernels do not take");
  const bool turned = low_is(how, KINORA_LOW_COLUMN_MAJOR);
  return {x.size(turned ? 1 : 0), x.size(turned ? 0 : 1)};
}
inline uint8_t* bytes(const at::Tensor& t, int64_t least) {
  if (least > 0 && (!t.is_contiguous() || t.scalar_type() != at::kByte || t.numel() < least))
    throw Error(KINORA_ERROR_INVALID, "too little room for codes or scales");
  return least > 0 ? t.data_ptr<uint8_t>() : nullptr;
}
template <class F>
void for_type(const at::Tensor& x, F f) {
  if (x.scalar_type() == at::kBFloat16) return f(static_cast<fp4::Bfloat16*>(x.data_ptr()));
  f(x.data_ptr<float>());
}

inline int32_t amax(const kinora_cuda_low* how, kinora_tensor given, kinora_tensor to) {
  return guard([&] {
    const auto x = borrow<at::Tensor>(given);
    const auto o = cuda::fp4_options(*how);
    const auto n = shape_of(*how, x);
    for_type(x, [&](auto* data) {
      *static_cast<fp4::Amax*>(borrow<at::Tensor>(to).data_ptr()) =
          cuda::fp4_tile::amax_on_host(n, data, o.hadamard, o.column_major, 3);
    });
  });
}

inline int32_t quantize(const kinora_cuda_low* how, kinora_tensor given, kinora_tensor amax,
                        kinora_tensor codes, kinora_tensor scales, kinora_tensor global) {
  return guard([&] {
    const auto x = borrow<at::Tensor>(given);
    const auto n = shape_of(*how, x);
    const float most = *borrow<at::Tensor>(amax).data_ptr<float>();
    uint8_t *const c = bytes(borrow<at::Tensor>(codes), cuda::low_code_bytes(*how, n)),
                   *const s = bytes(borrow<at::Tensor>(scales), cuda::low_scale_bytes(*how, n));
    float* const g = borrow<at::Tensor>(global).data_ptr<float>();
    for_type(x, [&](auto* data) {
      if (how->format == KINORA_LOW_NVFP4)
        *g = cuda::fp4_tile::quantize_on_host(n, data, cuda::fp4_options(*how), most, c, s);
      else
        cuda::fp8_tile::quantize_on_host(n, data, cuda::fp8_options(*how), most, c,
                                         cuda::low_is_one_scale(*how) ? static_cast<void*>(g) : s);
    });
  });
}

inline int32_t dequantize(const kinora_cuda_low* how, kinora_tensor codes, kinora_tensor scales,
                          kinora_tensor global, kinora_tensor to) {
  return guard([&] {
    const auto x = borrow<at::Tensor>(to);
    const auto n = shape_of(*how, x);
    const uint8_t *const c = bytes(borrow<at::Tensor>(codes), cuda::low_code_bytes(*how, n)),
                         *const s = bytes(borrow<at::Tensor>(scales), cuda::low_scale_bytes(*how, n));
    const float* const g = borrow<at::Tensor>(global).data_ptr<float>();
    for_type(x, [&](auto* data) {
      if (how->format == KINORA_LOW_NVFP4)
        cuda::fp4_tile::dequantize_on_host(n, c, s, low_is(*how, KINORA_LOW_SWIZZLED), *g, data);
      else
        cuda::fp8_tile::dequantize_on_host(n, c,
                                           cuda::low_is_one_scale(*how) ? static_cast<const void*>(g) : s,
                                           cuda::fp8_options(*how), data);
    });
  });
}

// capability: 10 * major + minor of the GPU that it plays.
template <int32_t capability>
const kinora_cuda_api& library() {
  static const kinora_cuda_api table = [] {
    kinora_cuda_api out{};
    out.struct_size = sizeof out;
    out.capability = [](int32_t, int32_t* to) -> int32_t { return *to = capability, KINORA_OK; };
    out.low_amax = amax;
    out.low_quantize = quantize;
    out.low_dequantize = dequantize;
    return out;
  }();
  return table;
}

}  // namespace kinora::quantised::on_host
