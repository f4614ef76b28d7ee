#include "kernels/cuda/gated.hpp"
#include "kernels/cuda/gated_row.hpp"
#include "kernels/cuda/rows.cuh"

namespace kinora::cuda {
namespace {

template <int N, class T>
__global__ void __launch_bounds__(kRowThreads) forward(RowsShape n, RowsIn x, RowsIn y, RowsIn gate, T* out) {
  const int64_t r = blockIdx.x;
  const RowPlace at = place_in(r, n.tokens);
  gated_row<N, float>(Block{nullptr}, row<T>(x, at), row<T>(y, at), row<T>(gate, at), n.width,
                      out + r * n.width);
}

template <int N, class T>
__global__ void __launch_bounds__(kRowThreads) backward(RowsShape n, RowsIn grad, RowsIn gate, T* grad_y) {
  const int64_t r = blockIdx.x;
  const RowPlace at = place_in(r, n.tokens);
  gated_row_backward<N, float>(Block{nullptr}, row<T>(grad, at), row<T>(gate, at), n.width,
                               grad_y + r * n.width);
}

template <class T>
struct Term {
  RowsIn grad, y;
  __device__ void operator()(RowPlace at, int64_t channel, float (&sums)[1]) const {
    add_gate_term(row<T>(grad, at)[channel], row<T>(y, at)[channel], sums);
  }
};

}  // namespace

cudaError_t gated(const RowsShape& n, RowsIn x, RowsIn y, RowsIn gate, void* out, cudaStream_t stream) {
  return for_rows(n, {x, y, gate, whole(n, out)}, [&](auto number, auto N, unsigned rows) {
    using T = decltype(number);
    forward<N.value><<<rows, kRowThreads, 0, stream>>>(n, x, y, gate, static_cast<T*>(out));
  });
}

cudaError_t gated_backward(const RowsShape& n, RowsIn grad, RowsIn gate, void* grad_y, cudaStream_t stream) {
  return for_rows(n, {grad, gate, whole(n, grad_y)}, [&](auto number, auto N, unsigned rows) {
    using T = decltype(number);
    backward<N.value><<<rows, kRowThreads, 0, stream>>>(n, grad, gate, static_cast<T*>(grad_y));
  });
}

cudaError_t gated_backward_sum(const RowsShape& n, Broadcast over, RowsIn grad, RowsIn y, float* partial,
                               float* grad_gate, cudaStream_t stream) {
  const Sums<1> to{{grad_gate}};
  if (n.number == Number::bfloat16)
    return sum_rows(n, over, Term<__nv_bfloat16>{grad, y}, partial, to, stream);
  return sum_rows(n, over, Term<float>{grad, y}, partial, to, stream);
}

}  // namespace kinora::cuda
