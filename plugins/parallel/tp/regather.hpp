// All tokens of a tensor group, of which a rank keeps only its own for the backward and gathers the rest
// again (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2). The graph's tensor shares
// this memory. It is freed after the forward and filled again before the backward, without the graph's
// version counter noticing. If the graph keeps nothing of it (frozen weights), nothing is gathered.
#pragma once
#include <ATen/core/Tensor.h>

#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora {

class Regather {
 public:
  // all: `own` of all ranks, joined along dimension 1.
  Regather(Group<at::Tensor> group, const at::Tensor& own, const at::Tensor& all);
  // The forward has read it.
  void empty();
  // Fills it again; start() only begins the transfer. Both may be called at any time and any number of times.
  void start();
  void finish();

 private:
  Group<at::Tensor> group_;
  at::Tensor own_;  // without its graph, until it is no longer needed
  int64_t version_;
  c10::weak_intrusive_ptr<c10::StorageImpl> all_;  // the graph's storage
  Started<at::Tensor> arriving_;
};

}  // namespace kinora
