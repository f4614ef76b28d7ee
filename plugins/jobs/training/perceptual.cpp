#include "plugins/jobs/training/perceptual.hpp"

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

using at::Tensor;
constexpr int64_t kWindow = 11;

Tensor widened(const Tensor& x) { return x.to(at::promote_types(x.scalar_type(), at::kFloat)); }

void check_alike(const char* what, const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes())
    raise(KINORA_ERROR_INVALID, "{} of videos {} and {}: both must have the same shape", what,
          c10::str(a.sizes()), c10::str(b.sizes()));
}

// The Gaussian-weighted mean around each position where the window fits, for images [N, 1, H, W]: one axis,
// then the other.
Tensor blurred(const Tensor& x, const Tensor& window) {
  return at::conv2d(at::conv2d(x, window.view({1, 1, -1, 1})), window.view({1, 1, 1, -1}));
}

// The square root of a symmetric positive semidefinite matrix. Clamps eigenvalues that rounding made
// negative.
Tensor root(const Tensor& m) {
  const auto [values, vectors] = at::linalg_eigh((m + m.t()) / 2);
  return at::matmul(vectors * values.clamp_min(0).sqrt(), vectors.t());
}

}  // namespace

Tensor psnr(const Tensor& a, const Tensor& b, double peak) {
  check_alike("psnr", a, b);
  const Tensor error = (widened(a) - widened(b)).square().flatten(1).mean(1);
  return 10 * (peak * peak / error).log10();
}

Tensor ssim(const Tensor& a, const Tensor& b, double peak) {
  check_alike("ssim", a, b);
  if (a.dim() != 5 || a.size(3) < kWindow || a.size(4) < kWindow)
    raise(KINORA_ERROR_INVALID, "ssim requires videos [B, C, T, H, W] of {} x {} pixels or more, found {}",
          kWindow, kWindow, c10::str(a.sizes()));
  const auto images = [](const Tensor& v) { return widened(v).flatten(0, 2).unsqueeze(1); };
  const Tensor x = images(a), y = images(b);
  const Tensor at = at::arange(kWindow, x.options()) - (kWindow - 1) / 2;
  const Tensor g = (-at.square() / (2 * 1.5 * 1.5)).exp(), window = g / g.sum();
  const double c1 = (0.01 * peak) * (0.01 * peak), c2 = (0.03 * peak) * (0.03 * peak);
  const Tensor mx = blurred(x, window), my = blurred(y, window);
  const Tensor vx = blurred(x.square(), window) - mx.square(), vy = blurred(y.square(), window) - my.square(),
               cov = blurred(x * y, window) - mx * my;
  const Tensor s = (2 * mx * my + c1) * (2 * cov + c2) / ((mx.square() + my.square() + c1) * (vx + vy + c2));
  return s.view({a.size(0), -1}).mean(1);
}

void FeatureStatistics::add(const Tensor& features) {
  if (features.dim() != 2)
    raise(KINORA_ERROR_INVALID, "features must be [N, D], found {}", c10::str(features.sizes()));
  if (features.size(0) == 0) return;
  FeatureStatistics piece;
  const Tensor x = features.detach().to(at::kDouble);
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
  if (count_ < 2) raise(KINORA_ERROR_INVALID, "a covariance requires two vectors or more, found {}", count_);
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
  return frechet_distance(a.mean(), a.covariance(), b.mean(), b.covariance());
}

}  // namespace kinora::core
