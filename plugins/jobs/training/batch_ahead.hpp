// Prepares microbatches on the device: the next one is made and copied while the current one is computed.
#pragma once
#include <functional>
#include <memory>

#include "core/torch/weights/weights.hpp"
#include "kinora/abi/cuda.h"

namespace kinora::core {

class BatchAhead {
 public:
  // Samples [first, first + count), on the CPU; depends only on these two numbers.
  using Make = std::function<NamedTensors(int64_t first, int64_t count)>;

  // cuda: copies on its own stream (null: the next batch is made ahead, and copied when it is taken); must
  // outlive this object. All calls are from one thread.
  BatchAhead(Make make, at::Device device, const kinora_cuda_api* cuda);

  // The batch from prepare() if it was called for the same samples, else made now.
  NamedTensors take(int64_t first, int64_t count);
  // Makes the batch now and starts its copy; it replaces a prepared one that was not taken.
  void prepare(int64_t first, int64_t count);

 private:
  struct Close {
    const kinora_cuda_api* cuda;
    void operator()(kinora_cuda_copier* c) const { cuda->copier_close(c); }
  };
  NamedTensors sent(const NamedTensors& from);
  void wait(const NamedTensors& sent);

  Make make_;
  at::Device device_;
  const kinora_cuda_api* cuda_;
  std::unique_ptr<kinora_cuda_copier, Close> copier_;
  int64_t first_ = -1, count_ = 0;  // range of next_
  NamedTensors next_;
};

}  // namespace kinora::core
