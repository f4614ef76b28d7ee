// Runs a function of GPU tensors through CUDA graphs: records it on the first call with each form of inputs,
// and replays it for further inputs of that form. A replay costs one launch instead of one per kernel.
#pragma once
#include <functional>
#include <list>
#include <memory>

#include "core/plugin/manifest.hpp"
#include "core/torch/weights/weights.hpp"
#include "kinora/abi/cuda.h"

namespace kinora::core {

// Whether a pipeline records the calls of a model on a GPU. is_asked: option cuda_graphs. Not a forward that must not
// be recorded (needs = ["eager"] of its manifest), nor one of several ranks, whose transfers cannot be.
bool records(const ComponentSpec& model, bool is_asked, int64_t ranks);

class Replays {
 public:
  // Must depend only on its arguments, and on what forget() is told of.
  using Function = std::function<at::Tensor(uint32_t branch, const NamedTensors& in)>;

  // The table must outlive this object. Throws Error if the device cannot record.
  Replays(const kinora_cuda_api& cuda, int32_t device, Function function);

  // The function's result, valid until the next call. A function that cannot be recorded is computed without
  // a graph from then on, and the reason is logged once.
  at::Tensor operator()(uint32_t branch, const NamedTensors& in);
  // The function has changed: what was recorded is not replayed.
  void forget();

 private:
  struct Graph {
    Replays* owner;
    uint32_t branch;
    NamedTensors in;  // inputs that the graph reads
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
  std::list<Graph> known_;  // most recently used first
  bool works_ = true;
};

}  // namespace kinora::core
