#include "kernels/cuda/gelu.hpp"
#include "kernels/cuda/gelu_row.hpp"
#include "kernels/cuda/rows.cuh"

namespace kinora::cuda {
namespace {

template <int N, class T>
__global__ void __launch_bounds__(kRowThreads)
    forward(RowsShape n, bool exact, RowsIn x, const T* bias, T* y) {
  const int64_t r = blockIdx.x;
  gelu_row<N, float>(Block{nullptr}, exact, row<T>(x, place_in(r, n.tokens)), bias, n.width, y + r * n.width);
}

template <int N, class T>
__global__ void __launch_bounds__(kRowThreads)
    backward(RowsShape n, bool exact, RowsIn grad, RowsIn x, const T* bias, T* grad_x) {
  const int64_t r = blockIdx.x;
  const RowPlace at = place_in(r, n.tokens);
  gelu_row_backward<N, float>(Block{nullptr}, exact, row<T>(grad, at), row<T>(x, at), bias, n.width,
                              grad_x + r * n.width);
}

template <class T>
struct Term {
  RowsIn grad, x;
  const T* bias;
  bool exact;
  __device__ void operator()(RowPlace at, int64_t channel, float (&sums)[1]) const {
    sums[0] += gelu_gradient<float>(row<T>(grad, at)[channel], row<T>(x, at)[channel], bias[channel], exact);
  }
};

RowsIn everywhere(const void* bias) { return {bias, 0, 0}; }

}  // namespace

cudaError_t gelu(const RowsShape& n, GeluForm form, RowsIn x, const void* bias, void* y,
                 cudaStream_t stream) {
  return for_rows(n, {x, everywhere(bias), whole(n, y)}, [&](auto number, auto N, unsigned rows) {
    using T = decltype(number);
    forward<N.value><<<rows, kRowThreads, 0, stream>>>(n, form == GeluForm::exact, x,
                                                       static_cast<const T*>(bias), static_cast<T*>(y));
  });
}

cudaError_t gelu_backward(const RowsShape& n, GeluForm form, RowsIn grad, RowsIn x, const void* bias,
                          void* grad_x, cudaStream_t stream) {
  return for_rows(n, {grad, x, everywhere(bias), whole(n, grad_x)}, [&](auto number, auto N, unsigned rows) {
    using T = decltype(number);
    backward<N.value><<<rows, kRowThreads, 0, stream>>>(n, form == GeluForm::exact, grad, x,
                                                        static_cast<const T*>(bias), static_cast<T*>(grad_x));
  });
}

cudaError_t gelu_backward_sum(const RowsShape& n, GeluForm form, RowsIn grad, RowsIn x, const void* bias,
                              float* partial, float* grad_bias, cudaStream_t stream) {
  const Sums<1> to{{grad_bias}};
  const Broadcast over{true, true};
  const bool exact = form == GeluForm::exact;
  if (n.number == Number::bfloat16)
    return sum_rows(n, over, Term<__nv_bfloat16>{grad, x, static_cast<const __nv_bfloat16*>(bias), exact},
                    partial, to, stream);
  return sum_rows(n, over, Term<float>{grad, x, static_cast<const float*>(bias), exact}, partial, to, stream);
}

}  // namespace kinora::cuda
