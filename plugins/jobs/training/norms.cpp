#include "plugins/jobs/training/norms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/weights/weights.hpp"
#include "kernels/torch/parallel.hpp"

namespace kinora::core {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum of numbers per thread

// Sum of squares in float64, in an order that depends only on `count`.
template <class T>
double sum_of_squares(const T* x, int64_t count) {
  std::array<double, 8> lanes{};  // independent sums, so that the processor need not wait for each
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (size_t k = 0; k < 8; ++k) {
      const auto one = static_cast<double>(x[i + static_cast<int64_t>(k)]);
      lanes[k] += one * one;
    }
  for (; i < count; ++i) lanes[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

// Sums of blocks at fixed positions, added in their order: independent of the number of threads.
template <class T>
double sum_blocks(const T* x, int64_t count) {
  const int64_t blocks = (count + kGrain - 1) / kGrain;
  std::vector<double> sums(static_cast<size_t>(blocks));
  in_parallel(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      sums[static_cast<size_t>(b)] = sum_of_squares(x + b * kGrain, std::min(kGrain, count - b * kGrain));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double squares_of(const at::Tensor& x) {
  if (x.is_cpu() && x.scalar_type() == at::kFloat) return sum_blocks(x.data_ptr<float>(), x.numel());
  if (x.is_cpu() && x.scalar_type() == at::kDouble) return sum_blocks(x.data_ptr<double>(), x.numel());
  const double norm = at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble).item<double>();
  return norm * norm;
}

using Share = std::function<double(const Leaf&, const Piece&)>;

double square_sum(const at::Tensor& of_leaf, const Leaf& leaf, const Share& share) {
  const at::NoGradGuard guard;
  const auto whole = of_leaf.contiguous();
  double sum = 0;
  for (const auto& p : leaf.pieces) sum += (share ? share(leaf, p) : 1) * squares_of(range_of(whole, p));
  return sum;
}

}  // namespace

double gradient_norm(const std::vector<Leaf>& leaves, const Share& share,
                     const std::function<double(double)>& sum) {
  double squares = 0;
  for (const auto& leaf : leaves)
    if (const auto& grad = leaf.tensor.grad(); !leaf.frozen && grad.defined())
      squares += square_sum(grad, leaf, share);
  return std::sqrt(sum ? sum(squares) : squares);
}

double weight_norm(const std::vector<Leaf>& leaves, const Share& share,
                   const std::function<double(double)>& sum) {
  double squares = 0;
  for (const auto& leaf : leaves) squares += square_sum(leaf.tensor, leaf, share);
  return std::sqrt(sum ? sum(squares) : squares);
}

double clip_factor(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

}  // namespace kinora::core
