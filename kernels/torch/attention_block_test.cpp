// The pieces of an attention against the whole, for every implementation of a block.
#include "kernels/torch/attention_block.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace kinora {
namespace {

using at::Tensor;

double worst(const Tensor& a, const Tensor& b) {
  return ((a.to(at::kDouble) - b).abs().max() / b.abs().max()).item<double>();
}

struct Whole {
  Tensor q, k, v, grad, out, grad_q, grad_k, grad_v;
};
constexpr double kScale = 0.3;

// In float64, by libtorch's own formula. mask: [1 or B, S, L]; a row of it may be all false.
Whole whole(const Tensor& mask, int64_t v_size) {
  at::manual_seed(3);
  const int64_t B = 2, S = 37, L = 53, H = 3, d = 16;
  const auto leaf = [](at::IntArrayRef shape) {
    return at::randn(shape, at::kDouble).set_requires_grad(true);
  };
  Whole w{leaf({B, S, H, d}),
          leaf({B, L, H, d}),
          leaf({B, L, H, v_size}),
          at::randn({B, S, H, v_size}, at::kDouble),
          {},
          {},
          {},
          {}};
  Tensor s = at::einsum("bshd,blhd->bhsl", {w.q, w.k}) * kScale;
  if (mask.defined()) s = s.masked_fill(~mask.unsqueeze(1), -1e300);
  Tensor p = s.softmax(3);
  if (mask.defined()) p = p * mask.unsqueeze(1);
  w.out = at::einsum("bhsl,blhd->bshd", {p, w.v});
  (w.out * w.grad).sum().backward();
  w.grad_q = w.q.grad();
  w.grad_k = w.k.grad();
  w.grad_v = w.v.grad();
  return w;
}

Tensor keys_of(const Tensor& mask, int64_t first, int64_t count) {
  return mask.defined() ? mask.narrow(2, first, count) : mask;
}

// Blocks of 20, 1 and 32 keys, merged; then their gradients.
template <class Forward, class Backward>
void equals(const Whole& w, const Tensor& mask, at::ScalarType type, double bound, Forward forward,
            Backward backward) {
  const auto as = [&](const Tensor& x) { return x.detach().to(type); };
  const Tensor q = as(w.q), k = as(w.k), v = as(w.v), grad = as(w.grad);
  const auto all = no_attention(q, v.size(3));
  const std::vector<std::pair<int64_t, int64_t>> blocks{{0, 20}, {20, 1}, {21, 32}};
  for (const auto& [first, count] : blocks)
    merge(all, forward(q, k.narrow(1, first, count), v.narrow(1, first, count), kScale,
                       keys_of(mask, first, count)));
  EXPECT_LT(worst(all.out, w.out), bound);
  Tensor grad_q = at::zeros_like(all.out.new_empty(q.sizes()));
  std::vector<Tensor> grad_k, grad_v;
  for (const auto& [first, count] : blocks) {
    const auto g = backward(grad, q, k.narrow(1, first, count), v.narrow(1, first, count), all, kScale,
                            keys_of(mask, first, count));
    grad_q.add_(g.q);
    grad_k.push_back(g.k);
    grad_v.push_back(g.v);
  }
  EXPECT_LT(worst(grad_q, w.grad_q), bound);
  EXPECT_LT(worst(at::cat(grad_k, 1), w.grad_k), bound);
  EXPECT_LT(worst(at::cat(grad_v, 1), w.grad_v), bound);
}

// Some queries see only one block, one sees none.
Tensor holes(int64_t batch) {
  at::manual_seed(9);
  Tensor mask = at::rand({batch, 37, 53}) < 0.5;
  mask.narrow(1, 0, 5).narrow(2, 0, 21).fill_(false);
  mask.select(1, 7).fill_(false);
  return mask;
}

TEST(AttentionBlock, PiecesAreTheWhole) {
  for (const Tensor& mask : {Tensor(), holes(1), holes(2)})
    for (const int64_t v_size : {16, 10}) {
      const Whole w = whole(mask, v_size);
      for (const auto& [type, bound] : {std::pair{at::kDouble, 1e-12}, std::pair{at::kFloat, 1e-5}}) {
        equals(w, mask, type, bound, attention_block, attention_block_backward);
        equals(w, mask, type, bound, reference::attention_block, reference::attention_block_backward);
      }
      equals(w, mask, at::kBFloat16, 2e-2, attention_block, attention_block_backward);
    }
}

TEST(AttentionBlock, AQueryThatSeesNothingIsZeroAndHasNoGradient) {
  const Tensor mask = holes(1);
  const Whole w = whole(mask, 16);
  const auto made = attention_block(w.q.detach(), w.k.detach(), w.v.detach(), kScale, mask);
  EXPECT_EQ(made.out.select(1, 7).abs().max().item<double>(), 0);
  EXPECT_EQ(made.log_sum.select(1, 7).max().item<double>(), kSeenNothing);
  const auto g =
      attention_block_backward(w.grad, w.q.detach(), w.k.detach(), w.v.detach(), made, kScale, mask);
  EXPECT_EQ(g.q.select(1, 7).abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace kinora
