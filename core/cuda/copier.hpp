// Copies to a GPU that run concurrently with its computation (kinora/abi/cuda.h).
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include "kinora/abi/cuda.h"

struct kinora_cuda_copier {
  explicit kinora_cuda_copier(c10::DeviceIndex device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)) {}
  std::vector<at::Tensor> send(const std::vector<at::Tensor>& in);
  void wait(const std::vector<at::Tensor>& sent);

 private:
  c10::cuda::CUDAStream stream_;
  c10::cuda::CUDAEvent done_;
};
