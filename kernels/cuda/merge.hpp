// Merges two results of one attention's queries for different keys, as kernels/torch/attention_block.hpp
// defines it (Milakov and Gimelshein 2018, arXiv 1805.02867), in one pass over memory. A warp per query and
// head; float32.
#pragma once
#include <cuda_runtime_api.h>

#include "kernels/cuda/merge_row.hpp"

namespace kinora::cuda {

// Merges `more` into `all`, whose rows must not overlap. Enqueues on `stream` and returns the launch's error;
// cudaErrorInvalidConfiguration for 2^31 rows or more.
cudaError_t merge_attention(const MergeShape&, const Attended<float>& all, const Attended<const float>& more,
                            cudaStream_t stream);

}  // namespace kinora::cuda
