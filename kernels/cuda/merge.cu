#include "kernels/cuda/merge.hpp"

namespace kinora::cuda {
namespace {

template <int N>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(MergeJob job) {
  const int thread = static_cast<int>(threadIdx.x);
  Merging<N> work;
  work.load(job, blockIdx.x, thread);
  __syncwarp();
  work.store(job, thread);
}

}  // namespace

cudaError_t merge_attention(const MergeShape& n, const Attended<float>& all,
                            const Attended<const float>& more, cudaStream_t stream) {
  const MergeJob job{n, all, more};
  if (job.rows() == 0) return cudaSuccess;
  if (job.rows() > INT32_MAX) return cudaErrorInvalidConfiguration;
  const auto blocks = static_cast<unsigned>(job.blocks());
  if (merges_packs(job))
    merge_kernel<4><<<blocks, kMergeThreads, 0, stream>>>(job);
  else
    merge_kernel<1><<<blocks, kMergeThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace kinora::cuda
