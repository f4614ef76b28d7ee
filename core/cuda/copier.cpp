#include "core/cuda/copier.hpp"

#include <ATen/Tensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

// Freed pinned memory is reused only after the copies from it have finished, because its allocator tracks the
// stream.
std::vector<at::Tensor> kinora_cuda_copier::send(const std::vector<at::Tensor>& in) {
  const c10::cuda::CUDAStreamGuard aside(stream_);
  std::vector<at::Tensor> out;
  for (const auto& tensor : in)
    out.push_back(tensor.contiguous().pin_memory().to(stream_.device(), tensor.scalar_type(),
                                                      /*non_blocking=*/true));
  done_.record(stream_);
  return out;
}

// Their memory belongs to this stream: it must not be given to another copy while the reader still reads.
void kinora_cuda_copier::wait(const std::vector<at::Tensor>& sent) {
  const auto reader = c10::cuda::getCurrentCUDAStream(stream_.device_index());
  done_.block(reader);
  for (const auto& tensor : sent)
    c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), reader);
}
