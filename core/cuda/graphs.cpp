#include "core/cuda/graphs.hpp"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CachingHostAllocator.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace {

using c10::cuda::CUDAStream;

// Makes work enqueued on `later` from now on wait for the work on `first`.
void order(const CUDAStream& first, const CUDAStream& later) {
  c10::cuda::CUDAEvent event;
  event.record(first);
  event.block(later);
}

at::Tensor called(kinora_cuda_graphs::Evaluate evaluate, void* user) {
  kinora_tensor out = nullptr;
  kinora::check(evaluate(user, &out));
  return kinora::adopt<at::Tensor>(out);
}

}  // namespace

kinora_cuda_graphs::kinora_cuda_graphs(c10::DeviceIndex device)
    : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)),
      pool_(at::cuda::graph_pool_handle()) {}

at::Tensor kinora_cuda_graphs::record(Evaluate evaluate, void* user, int64_t& number) {
  const c10::cuda::CUDAGuard device(stream_.device());
  const CUDAStream outside = c10::cuda::getCurrentCUDAStream(stream_.device_index());
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  at::Tensor out;
  order(outside, stream_);
  {
    const c10::cuda::CUDAStreamGuard aside(stream_);
    // Creates library handles and workspaces, selects algorithms, fills the context's tables.
    for (int warm_up = 0; warm_up < 2; ++warm_up) called(evaluate, user);
    out = capture(*graph, evaluate, user);
  }
  order(stream_, outside);
  number = ++last_;
  graphs_[number] = std::move(graph);
  return out;
}

// Other threads may continue to use the device: only this thread's calls are checked.
at::Tensor kinora_cuda_graphs::capture(at::cuda::CUDAGraph& graph, Evaluate evaluate, void* user) {
  stream_.synchronize();
  graph.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
  try {
    at::Tensor out = called(evaluate, user);
    graph.capture_end();
    return out;
  } catch (...) {
    abandon();
    throw;
  }
}

// Ends a capture that failed. Otherwise libtorch's allocators would continue to allocate from the pool.
void kinora_cuda_graphs::abandon() {
  cudaGraph_t left = nullptr;
  if (cudaStreamEndCapture(stream_, &left) == cudaSuccess && left) cudaGraphDestroy(left);
  cudaGetLastError();
  const auto quietly = [](auto f) {
    try {
      f();
    } catch (const c10::Error&) {  // the capture had already ended
    }
  };
  quietly([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(stream_.device_index(), pool_); });
  quietly([&] { at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool_); });
}

void kinora_cuda_graphs::replay(int64_t number) {
  const auto it = graphs_.find(number);
  if (it == graphs_.end()) kinora::core::raise(KINORA_ERROR_INVALID, "CUDA graph {} does not exist", number);
  it->second->replay();
}
