// A model behind a strategy with its training step, for benchmarks.
#pragma once
#include <string>

#include "core/torch/context/network.hpp"
#include "apps/bench/bench_ranks.hpp"

namespace kinora::core {

class BenchStep {
 public:
  // text: [1, L, size], the model's text input. The strategy must outlive this object.
  BenchStep(Runtime&, const std::string& model, const json& options, const Frames& rule, const BenchStrategy&,
            at::Tensor text);
  // The loss covers frames [from, ...), those that a rank learns from. Gradients keep their own memory from
  // the first step on.
  void operator()(const at::Tensor& latent, int64_t from = 0, int64_t micro = 1);

 private:
  const BenchStrategy& strategy_;
  Component component_;
  Network network_;
  at::Tensor text_;
};

}  // namespace kinora::core
