// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2) and moving averages of the weights in one
// pass over memory, in float32. Every operation is rounded on its own, in the order of
// plugins/optimizers/adamw/adamw_pass.cpp: the results have the same bits as on a processor.
#pragma once
#include <cuda_runtime_api.h>

#include "kernels/cuda/adamw_range.hpp"

namespace kinora::cuda {

// Enqueues on `stream` and returns the launch's error.
cudaError_t adamw(const AdamWRange&, const AdamWNumbers&, cudaStream_t stream);

}  // namespace kinora::cuda
