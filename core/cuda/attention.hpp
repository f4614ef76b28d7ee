// Attention in FP8 by cuDNN 9, for the table of kinora/abi/cuda.h. cuDNN has one scale for a whole tensor, so
// each head of each sample is a call of its own; calls run side by side on a few streams, since one head fills
// a GPU only from about 16,000 queries on.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include "core/cuda/attention_graph.hpp"
#include "kinora/abi/cuda.h"

struct kinora_cuda_attention {
 public:
  // Throws Error(KINORA_ERROR_UNSUPPORTED) before Hopper.
  explicit kinora_cuda_attention(c10::DeviceIndex device);
  bool has_fp8_backward() const { return capability_ >= 100; }
  std::array<at::Tensor, 2> forward(const kinora_cuda_heads&);
  std::array<at::Tensor, 3> backward(const kinora_cuda_heads&, const at::Tensor& grad, const at::Tensor& out,
                                     const at::Tensor& sums);

 private:
  using Pass = kinora::core::AttentionPass;
  using Sizes = kinora::core::AttentionSizes;
  using Pointers = std::unordered_map<int64_t, void*>;
  struct Plan {
    std::shared_ptr<cudnn_frontend::graph::Graph> graph;
    int64_t room = 0;     // bytes of working memory
    std::string why_not;  // cuDNN's reason, if it has none
  };

  // Throws Error(KINORA_ERROR_UNSUPPORTED) where cuDNN has none; asks it once.
  const Plan& plan(Pass, const Sizes&, double scale);
  void run(const Plan&, int64_t calls, const std::function<Pointers(int64_t)>& pointers);

  c10::DeviceIndex device_;
  int32_t capability_ = 0;  // 10 * major + minor
  std::vector<c10::cuda::CUDAStream> streams_;
  std::mutex mutex_;
  std::map<std::tuple<Pass, Sizes, float>, Plan> plans_;
};
