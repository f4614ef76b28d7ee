// A function of tensors on a GPU as CUDA graphs: recorded when it is called first for a form of its inputs,
// and replayed for inputs of that form afterwards. A replay costs one launch instead of one for every kernel.
#pragma once
#include <functional>
#include <list>
#include <memory>

#include "core/torch/weights/weights.hpp"
#include "kinora/abi/cuda.h"

namespace kinora::core {

class Replays {
 public:
  // Depends on nothing but what it is given.
  using Function = std::function<at::Tensor(uint32_t branch, const NamedTensors& in)>;

  // The table outlives it. Throws Error if the device cannot record.
  Replays(const kinora_cuda_api& cuda, int32_t device, Function function);

  // The function's value, to be read before the next call. What cannot be recorded is computed without a
  // graph from then on, and the log says why, once.
  at::Tensor operator()(uint32_t branch, const NamedTensors& in);

 private:
  struct Graph {
    Replays* owner;
    uint32_t branch;
    NamedTensors in;  // what the graph reads
    at::Tensor out;
    int64_t number = -1;
  };
  struct Close {
    const kinora_cuda_api* cuda;
    void operator()(kinora_cuda_graphs* g) const { cuda->graphs_close(g); }
  };
  Graph* graph_of(uint32_t branch, const NamedTensors& in);
  bool record(Graph& graph);

  const kinora_cuda_api& cuda_;
  Function function_;
  std::unique_ptr<kinora_cuda_graphs, Close> graphs_;
  std::list<Graph> known_;  // the one used last comes first
  bool works_ = true;
};

}  // namespace kinora::core
