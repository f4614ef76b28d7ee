#include "kernels/cuda/adamw.hpp"

namespace kinora::cuda {
namespace {

template <int N>
__global__ void __launch_bounds__(kAdamWThreads) adamw_kernel(AdamWRange r, AdamWNumbers n) {
  adamw_thread<N>(r, n, blockIdx.x, static_cast<int>(threadIdx.x));
}

template <int N>
cudaError_t launch(const AdamWRange& r, const AdamWNumbers& n, cudaStream_t stream) {
  const int64_t blocks = adamw_blocks(r, N);
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  adamw_kernel<N><<<static_cast<unsigned>(blocks), kAdamWThreads, 0, stream>>>(r, n);
  return cudaGetLastError();
}

}  // namespace

cudaError_t adamw(const AdamWRange& r, const AdamWNumbers& n, cudaStream_t stream) {
  if (r.averages > kMostAverages) return cudaErrorInvalidValue;
  if (r.count == 0) return cudaSuccess;
  return adamw_packs(r) ? launch<4>(r, n, stream) : launch<1>(r, n, stream);
}

}  // namespace kinora::cuda
