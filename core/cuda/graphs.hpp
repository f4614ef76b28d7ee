// CUDA graphs and copies to a GPU: the opaque types of kinora/abi/cuda.h. Errors are exceptions.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include <ATen/Tensor.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kinora/abi/cuda.h"

// Copies to a GPU that run concurrently with its computation.
struct kinora_cuda_copier {
  explicit kinora_cuda_copier(c10::DeviceIndex device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)) {}

  // Freed pinned memory is reused only after the copies from it have finished, because its allocator tracks
  // the stream.
  std::vector<at::Tensor> send(const std::vector<at::Tensor>& in) {
    const c10::cuda::CUDAStreamGuard aside(stream_);
    std::vector<at::Tensor> out;
    for (const auto& tensor : in)
      out.push_back(tensor.contiguous().pin_memory().to(stream_.device(), tensor.scalar_type(),
                                                        /*non_blocking=*/true));
    done_.record(stream_);
    return out;
  }

  // Their memory belongs to this stream: it must not be given to another copy while the reader still reads.
  void wait(const std::vector<at::Tensor>& sent) {
    const auto reader = c10::cuda::getCurrentCUDAStream(stream_.device_index());
    done_.block(reader);
    for (const auto& tensor : sent)
      c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), reader);
  }

 private:
  c10::cuda::CUDAStream stream_;
  c10::cuda::CUDAEvent done_;
};

// CUDA graphs: functions recorded once and replayed. All graphs of one owner share a pool: they never run at
// the same time, and the results of one are read before the next runs.
struct kinora_cuda_graphs {
  using Evaluate = int32_t (*)(void* user, kinora_tensor* out);

  explicit kinora_cuda_graphs(c10::DeviceIndex device);
  at::Tensor record(Evaluate evaluate, void* user, int64_t& number);
  void replay(int64_t number);
  void forget(int64_t number) { graphs_.erase(number); }

 private:
  at::Tensor capture(at::cuda::CUDAGraph& graph, Evaluate evaluate, void* user);
  void abandon();

  c10::cuda::CUDAStream stream_;  // separate from the caller's stream
  c10::MempoolId_t pool_;
  int64_t last_ = 0;
  std::map<int64_t, std::unique_ptr<at::cuda::CUDAGraph>> graphs_;
};
