// CUDA graphs (kinora/abi/cuda.h): functions recorded once and replayed.
#pragma once
#include <map>
#include <memory>

#include <ATen/cuda/CUDAGraph.h>

#include "kinora/abi/cuda.h"

// All graphs of one owner share a pool: they never run at the same time, and the results of one are read
// before the next runs.
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
