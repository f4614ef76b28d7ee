// Common parts of the nodes of kernels/torch.
#pragma once
#include <algorithm>
#include <optional>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cpu/modulate.hpp"
#include "kernels/torch/parallel.hpp"

namespace kinora::node {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// An optional input of a node; the graph does not allow undefined inputs.
using Maybe = std::optional<at::Tensor>;
inline Maybe maybe(const at::Tensor& t) { return t.defined() ? Maybe(t) : Maybe(); }
inline at::Tensor tensor_of(const Maybe& t) { return t ? *t : at::Tensor(); }

// Whether the kernels can read it: float32 in main memory, on a processor that supports them.
inline bool fits(const at::Tensor& x) {
  return x.defined() && x.is_cpu() && x.scalar_type() == at::kFloat && x.layout() == at::kStrided &&
         x.numel() > 0 && has_elementwise();
}

// The kernels' gradients have no graph: differentiating them again is an error.
variable_list once(variable_list grads, const char* what);

// The graph of Node if there is one to keep; otherwise nothing is saved.
template <class Node, class... Args>
auto apply(const Args&... args) {
  if (at::GradMode::is_enabled()) return Node::apply(args...);
  AutogradContext none;
  return Node::forward(&none, args...);
}

// Rows [B, S] in blocks of one sample at fixed places, independent of the number of threads.
struct Blocks {
  static constexpr int64_t kRows = 64;
  int64_t batch, rows;  // B, S
  int64_t of_sample() const { return (rows + kRows - 1) / kRows; }
  int64_t count() const { return batch * of_sample(); }
  // f(block, sample, first row, number of rows)
  template <class F>
  void each(const F& f) const {
    in_parallel(count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % of_sample() * kRows;
        f(i, i / of_sample(), first, std::min(kRows, rows - first));
      }
    });
  }
};

// [B, width] (or [width] if sums are [all blocks, width]): the sums of each sample's blocks, in order.
at::Tensor total(const at::Tensor& sums);

}  // namespace kinora::node
