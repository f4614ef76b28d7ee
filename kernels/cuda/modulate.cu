#include "kernels/cuda/modulate.hpp"
#include "kernels/cuda/modulate_row.hpp"
#include "kernels/cuda/rows.cuh"

namespace kinora::cuda {
namespace {

template <int N, class T>
__global__ void __launch_bounds__(kRowThreads)
    forward(RowsShape n, float eps, RowsIn x, RowsIn scale, RowsIn shift, T* y, float* mean, float* rstd) {
  __shared__ float shared[kWarp];
  const int64_t r = blockIdx.x;
  const RowPlace at = place_in(r, n.tokens);
  modulate_row<N>(Block{shared}, row<T>(x, at), row<T>(scale, at), row<T>(shift, at), n.width, eps,
                  y + r * n.width, mean + r, rstd + r);
}

template <int N, class T>
__global__ void __launch_bounds__(kRowThreads) backward(RowsShape n, RowsIn grad, RowsIn x, RowsIn scale,
                                                        const float* mean, const float* rstd, T* grad_x) {
  __shared__ float shared[kWarp];
  const int64_t r = blockIdx.x;
  const RowPlace at = place_in(r, n.tokens);
  modulate_row_backward<N>(Block{shared}, row<T>(grad, at), row<T>(x, at), row<T>(scale, at), n.width,
                           mean[r], rstd[r], grad_x + r * n.width);
}

template <class T>
struct Term {
  RowsIn grad, x;
  const float *mean, *rstd;
  int64_t tokens;
  __device__ void operator()(RowPlace at, int64_t channel, float (&sums)[2]) const {
    const int64_t r = at.sample * tokens + at.token;
    add_modulate_terms(row<T>(grad, at)[channel], row<T>(x, at)[channel], mean[r], rstd[r], sums);
  }
};

}  // namespace

cudaError_t modulate(const RowsShape& n, float eps, RowsIn x, RowsIn scale, RowsIn shift, void* y,
                     float* mean, float* rstd, cudaStream_t stream) {
  return for_rows(n, {x, scale, shift, whole(n, y)}, [&](auto number, auto N, unsigned rows) {
    using T = decltype(number);
    forward<N.value>
        <<<rows, kRowThreads, 0, stream>>>(n, eps, x, scale, shift, static_cast<T*>(y), mean, rstd);
  });
}

cudaError_t modulate_backward(const RowsShape& n, RowsIn grad, RowsIn x, RowsIn scale, const float* mean,
                              const float* rstd, void* grad_x, cudaStream_t stream) {
  return for_rows(n, {grad, x, scale, whole(n, grad_x)}, [&](auto number, auto N, unsigned rows) {
    using T = decltype(number);
    backward<N.value>
        <<<rows, kRowThreads, 0, stream>>>(n, grad, x, scale, mean, rstd, static_cast<T*>(grad_x));
  });
}

cudaError_t modulate_backward_sums(const RowsShape& n, Broadcast over, RowsIn grad, RowsIn x,
                                   const float* mean, const float* rstd, float* partial, float* grad_scale,
                                   float* grad_shift, cudaStream_t stream) {
  const Sums<2> to{{grad_scale, grad_shift}};
  if (n.number == Number::bfloat16)
    return sum_rows(n, over, Term<__nv_bfloat16>{grad, x, mean, rstd, n.tokens}, partial, to, stream);
  return sum_rows(n, over, Term<float>{grad, x, mean, rstd, n.tokens}, partial, to, stream);
}

}  // namespace kinora::cuda
