// A chain of one process on the CPU (core/torch/chain/chain.hpp) for code that links no libtorch
// (tensor_service.hpp): how `kinora plugins validate` calls a model, a tokenizer and the links of precisions
// and caches.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kinora/abi/link.h"

namespace kinora::core {

struct PlainChainOptions {
  uint64_t seed = 0;                     // for the parameters' initial values and the pass
  int32_t dtype = KINORA_DTYPE_FLOAT64;  // KINORA_DTYPE_* of the parameters
  bool is_meta = false;                  // shapes only: nothing is allocated
  bool before = false;                   // the model declares KINORA_SEES_CAUSAL
};

// Owner of the parameters. One thread at a time. Errors are kinora::Error; handles belong to the caller.
class PlainChain {
 public:
  struct Leaf {
    std::string name;
    kinora_tensor tensor;
    bool frozen;
  };
  virtual ~PlainChain() = default;
  // The context that a model calls.
  virtual const kinora_context* head() const = 0;
  // Once, after create() of the model: the parameters have values from here on.
  virtual void ready() = 0;
  // A forward begins, `frames` frames after the first one of the video.
  virtual void begin(const kinora_pass& pass, int64_t frames) = 0;
  virtual std::vector<Leaf> leaves() const = 0;
  // A tensor of the same shape and dtype on the chain's device: the given one, or one of the meta device.
  virtual kinora_tensor on_device(kinora_tensor given) const = 0;
};

}  // namespace kinora::core
