#include "plugins/jobs/inference/replays.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/base/log.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

bool of_one_form(const NamedTensors& a, const NamedTensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.sizes() == y.second.sizes() &&
           x.second.scalar_type() == y.second.scalar_type();
  });
}

}  // namespace

bool records(const ComponentSpec& model, bool is_asked, int64_t ranks) {
  return is_asked && ranks == 1 && std::ranges::find(model.needs, kNeedsEager) == model.needs.end();
}

Replays::Replays(const kinora_cuda_api& cuda, int32_t device, Function function)
    : cuda_(cuda), function_(std::move(function)), graphs_(nullptr, Close{&cuda}) {
  kinora_cuda_graphs* made = nullptr;
  check(cuda.graphs_open(device, &made));
  graphs_.reset(made);
}

bool Replays::record(Graph& graph) {
  const auto evaluate = [](void* user, kinora_tensor* out) {
    return torch_guard([&] {
      const auto& g = *static_cast<Graph*>(user);
      *out = give(g.owner->function_(g.branch, g.in));
    });
  };
  kinora_tensor out = nullptr;
  try {
    check(cuda_.graphs_record(graphs_.get(), evaluate, &graph, &graph.number, &out));
  } catch (const Error& e) {
    log_warn("CUDA graphs are not used: {}", e.what());
    return false;
  }
  graph.out = adopt<at::Tensor>(out);
  return true;
}

// Captions have many lengths: keeps only the most recently used graphs.
Replays::Graph* Replays::graph_of(uint32_t branch, const NamedTensors& in) {
  for (auto it = known_.begin(); it != known_.end(); ++it)
    if (it->branch == branch && of_one_form(it->in, in)) {
      known_.splice(known_.begin(), known_, it);
      for (const auto& [name, to] : it->in) to.copy_(in.at(name));
      return &known_.front();
    }
  constexpr size_t most = 4;
  if (known_.size() == most) {
    cuda_.graphs_forget(graphs_.get(), known_.back().number);
    known_.pop_back();
  }
  known_.push_front({this, branch, {}, {}});
  for (const auto& [name, tensor] : in) known_.front().in[name] = tensor.clone();
  works_ = record(known_.front());
  if (works_) return &known_.front();
  known_.pop_front();
  return nullptr;
}

void Replays::forget() {
  for (const Graph& graph : known_) cuda_.graphs_forget(graphs_.get(), graph.number);
  known_.clear();
}

at::Tensor Replays::operator()(uint32_t branch, const NamedTensors& in) {
  const Graph* graph = works_ ? graph_of(branch, in) : nullptr;
  if (!graph) return function_(branch, in);
  check(cuda_.graphs_replay(graphs_.get(), graph->number));
  return graph->out;
}

}  // namespace kinora::core
