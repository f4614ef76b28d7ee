// Transfers that autograd records, for activations. A group of one moves nothing and adds
// no node.
//
// All but shared() are linear maps with their true adjoints as backwards. A tensor that ranks share has a
// partial sum as its gradient (abi/context.h), which no transfer here completes.
#pragma once
#include <vector>

#include "kinora/autograd.hpp"
#include "kinora/strategy.hpp"

KINORA_SDK_BEGIN

namespace kinora {

namespace detail {
template <class T, class Forward, class Backward>
T transferred(const Group<T>& g, const T& x, Forward forward, Backward backward) {
  if (g.size() == 1) return x;
  return autograd_apply<T>(
      {x}, 1, [g, forward](const std::vector<T>& in) { return std::vector<T>{forward(g, in[0])}; },
      [g, backward](const std::vector<T>& grad) { return std::vector<T>{backward(g, grad[0])}; })[0];
}
}  // namespace detail

// Pieces joined along dim. Backward: the sum over the ranks, of which each rank takes its piece.
template <class T>
T gathered(const Group<T>& group, const T& x, int64_t dim) {
  return detail::transferred(
      group, x, [dim](const Group<T>& g, const T& t) { return g.gather(t, dim); },
      [dim](const Group<T>& g, const T& t) { return g.scatter_sum(t, dim); });
}

// The sum over the ranks, of which each rank takes its piece along dim. Backward: pieces joined.
template <class T>
T scattered_sum(const Group<T>& group, const T& x, int64_t dim) {
  return detail::transferred(
      group, x, [dim](const Group<T>& g, const T& t) { return g.scatter_sum(t, dim); },
      [dim](const Group<T>& g, const T& t) { return g.gather(t, dim); });
}

// All-to-all: split along one dimension, joined along the other. Backward: the inverse.
template <class T>
T exchanged(const Group<T>& group, const T& x, int64_t split, int64_t join) {
  return detail::transferred(
      group, x, [=](const Group<T>& g, const T& t) { return g.exchange(t, split, join); },
      [=](const Group<T>& g, const T& t) { return g.exchange(t, join, split); });
}

// The sum on every rank, of statistics that all of them then use. Backward: the sum of the gradients of all
// ranks.
template <class T>
T summed(const Group<T>& group, const T& x) {
  return detail::transferred(
      group, x, [](const Group<T>& g, const T& t) { return g.sum(t); },
      [](const Group<T>& g, const T& t) { return g.sum(t); });
}

// Pieces joined along dim on every rank, where every rank then computes the same from them: the loss.
// Backward: the rank's own piece of the gradient, unscaled and without a transfer.
template <class T>
T shared(const Group<T>& group, const T& x, int64_t dim) {
  if (group.size() == 1) return x;
  const int64_t length = x.size(dim);
  return detail::transferred(
      group, x, [dim](const Group<T>& g, const T& t) { return g.gather(t, dim); },
      [dim, length](const Group<T>& g, const T& t) {
        return t.narrow(dim, g.rank() * length, length).contiguous();
      });
}

}  // namespace kinora

KINORA_SDK_END
