#include "core/cuda/low.hpp"

#include "core/cuda/launch.hpp"
#include "kernels/cuda/fp4.hpp"
#include "kernels/cuda/fp8.hpp"
#include "kernels/cuda/low.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
using fp4::Bfloat16;

// Calls f(null pointer of the kernels' number type) for x's dtype.
template <class F>
cudaError_t for_type(const Tensor& x, F f) {
  return number_of(x, "low") == cuda::Number::float32 ? f(static_cast<float*>(nullptr))
                                                      : f(static_cast<Bfloat16*>(nullptr));
}
template <class T>
T* data_of(const Tensor& t, T*) {
  return static_cast<T*>(t.data_ptr());
}

fp4::Shape shape_of(const kinora_cuda_low& how, const Tensor& x) {
  number_of(x, "low");
  if (!cuda::low_is_known(how))
    raise(KINORA_ERROR_UNSUPPORTED,
          "low: format {}, scaling {}, rule {}, flags {} are not a format of this library", how.format,
          how.scaling, how.rule, how.flags);
  if (x.dim() != 2 || !x.is_contiguous())
    raise(KINORA_ERROR_INVALID, "low: x {} is not a contiguous matrix", c10::str(x.sizes()));
  const bool turned = cuda::low_is(how, KINORA_LOW_COLUMN_MAJOR);
  return {x.size(turned ? 1 : 0), x.size(turned ? 0 : 1)};
}

template <class T = uint8_t>
T* room(const Tensor& t, const Tensor& x, at::ScalarType type, int64_t least, const char* name) {
  if (least == 0) return nullptr;
  if (!t.defined() || t.scalar_type() != type || t.device() != x.device() || !t.is_contiguous() ||
      t.numel() < least)
    raise(KINORA_ERROR_INVALID, "low: {} is not {} of at least {} numbers, contiguous on {}", name,
          c10::str(type), least, c10::str(x.device()));
  return static_cast<T*>(t.data_ptr());
}

struct Stored {
  uint8_t *codes, *scales;
  float* global;
};
Stored stored(const kinora_cuda_low& how, const fp4::Shape& n, const Tensor& x, const Tensor& codes,
              const Tensor& scales, const Tensor& global) {
  const bool has = how.format == KINORA_LOW_NVFP4 || cuda::low_is_one_scale(how);
  return {room(codes, x, at::kByte, cuda::low_code_bytes(how, n), "codes"),
          room(scales, x, at::kByte, cuda::low_scale_bytes(how, n), "scales"),
          room<float>(global, x, at::kFloat, has ? 1 : 0, "global")};
}
void* fp8_scales(const kinora_cuda_low& how, const Stored& to) {
  return cuda::low_is_one_scale(how) ? static_cast<void*>(to.global) : to.scales;
}

}  // namespace

void low_amax_on_gpu(const kinora_cuda_low& how, const Tensor& x, const Tensor& amax) {
  const auto n = shape_of(how, x);
  const auto o = cuda::fp4_options(how);
  auto* const to = room<fp4::Amax>(amax, x, at::kFloat, 4, "amax");
  const c10::cuda::CUDAGuard device(x.device());
  C10_CUDA_CHECK(for_type(x, [&](auto* type) {
    return cuda::fp4_amax(n, data_of(x, type), o.hadamard, o.column_major, to, stream_of(x));
  }));
}

void low_quantize_on_gpu(const kinora_cuda_low& how, const Tensor& x, const Tensor& amax, const Tensor& codes,
                         const Tensor& scales, const Tensor& global) {
  const auto n = shape_of(how, x);
  const auto* const most = room<fp4::Amax>(amax, x, at::kFloat, 4, "amax");
  const Stored to = stored(how, n, x, codes, scales, global);
  const c10::cuda::CUDAGuard device(x.device());
  if (how.format == KINORA_LOW_NVFP4) {
    C10_CUDA_CHECK(for_type(x, [&](auto* type) {
      return cuda::fp4_quantize(n, data_of(x, type), cuda::fp4_options(how), most, to.codes, to.scales,
                                to.global, stream_of(x));
    }));
    return;
  }
  const Tensor non_finite = at::empty({1}, x.options().dtype(at::kLong));  // low_amax has counted them
  C10_CUDA_CHECK(for_type(x, [&](auto* type) {
    return cuda::fp8_quantize(n, data_of(x, type), cuda::fp8_options(how), most, to.codes,
                              fp8_scales(how, to), static_cast<unsigned long long*>(non_finite.data_ptr()),
                              stream_of(x));
  }));
}

void low_dequantize_on_gpu(const kinora_cuda_low& given, const Tensor& codes, const Tensor& scales,
                           const Tensor& global, const Tensor& x) {
  kinora_cuda_low how = given;
  how.flags &= ~KINORA_LOW_COLUMN_MAJOR;
  const auto n = shape_of(how, x);
  const Stored from = stored(how, n, x, codes, scales, global);
  const c10::cuda::CUDAGuard device(x.device());
  C10_CUDA_CHECK(for_type(x, [&](auto* type) {
    if (how.format == KINORA_LOW_NVFP4)
      return cuda::fp4_dequantize(n, from.codes, from.scales, cuda::low_is(how, KINORA_LOW_SWIZZLED),
                                  from.global, data_of(x, type), stream_of(x));
    return cuda::fp8_dequantize(n, from.codes, fp8_scales(how, from), cuda::fp8_options(how),
                                data_of(x, type), stream_of(x));
  }));
}

}  // namespace kinora::core
