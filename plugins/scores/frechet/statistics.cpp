#include "plugins/scores/frechet/statistics.hpp"

#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "kinora/error.hpp"

namespace kinora::frechet {
namespace {

using at::Tensor;

// The square root of a symmetric positive semidefinite matrix. Clamps eigenvalues that rounding made
// negative.
Tensor root(const Tensor& m) {
  const auto [values, vectors] = at::linalg_eigh((m + m.t()) / 2);
  return at::matmul(vectors * values.clamp_min(0).sqrt(), vectors.t());
}

}  // namespace

FeatureStatistics::FeatureStatistics(int64_t count, Tensor mean, Tensor scatter)
    : count_(count), mean_(std::move(mean)), scatter_(std::move(scatter)) {}

void FeatureStatistics::add(const Tensor& features) {
  if (features.size(0) == 0) return;
  FeatureStatistics piece;
  const Tensor x = features.detach().to(at::kCPU, at::kDouble);
  piece.count_ = x.size(0);
  piece.mean_ = x.mean(0);
  const Tensor centred = x - piece.mean_;
  piece.scatter_ = at::matmul(centred.t(), centred);
  merge(piece);
}

void FeatureStatistics::merge(const FeatureStatistics& other) {
  if (other.count_ == 0) return;
  if (count_ == 0) {
    *this = other;
    return;
  }
  const auto n = static_cast<double>(count_), m = static_cast<double>(other.count_);
  const Tensor delta = other.mean_ - mean_;
  mean_ = mean_ + delta * (m / (n + m));
  scatter_ = scatter_ + other.scatter_ + at::outer(delta, delta) * (n * m / (n + m));
  count_ += other.count_;
}

Tensor FeatureStatistics::covariance() const {
  if (count_ < 2)
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "a covariance requires two feature vectors or more, found " + std::to_string(count_));
  return scatter_ / static_cast<double>(count_ - 1);
}

double frechet_distance(const Tensor& mean1, const Tensor& covariance1, const Tensor& mean2,
                        const Tensor& covariance2) {
  const auto exact = [](const Tensor& t) { return t.detach().to(at::kCPU, at::kDouble); };
  const Tensor s1 = exact(covariance1), s2 = exact(covariance2), half = root(s1);
  const Tensor inner = at::matmul(at::matmul(half, s2), half);
  const Tensor cross = at::linalg_eigvalsh((inner + inner.t()) / 2).clamp_min(0).sqrt().sum();
  return ((exact(mean1) - exact(mean2)).square().sum() + s1.trace() + s2.trace() - 2 * cross).item<double>();
}

double frechet_distance(const FeatureStatistics& a, const FeatureStatistics& b) {
  const Tensor s1 = a.covariance(), s2 = b.covariance();  // first: a mean of no vectors is undefined
  return frechet_distance(a.mean(), s1, b.mean(), s2);
}

}  // namespace kinora::frechet
