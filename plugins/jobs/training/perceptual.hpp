// Measures the quality of reconstructed and generated videos. Videos are [B, C, T, H, W]; `peak` is the width
// of their range, 2 for [-1, 1].
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace kinora::core {

// 10 log10(peak^2 / mean squared error), one number per sample; infinite for equal ones.
at::Tensor psnr(const at::Tensor& a, const at::Tensor& b, double peak = 2);

// Structural similarity (Wang et al. 2004, equation 13): Gaussian window of 11 pixels, sigma 1.5, K1 .01, K2
// .03, wherever the window fits; one number per sample, the mean over channels, frames and positions. Throws
// Error(KINORA_ERROR_INVALID) for frames smaller than the window.
at::Tensor ssim(const at::Tensor& a, const at::Tensor& b, double peak = 2);

// Mean and covariance of feature vectors that arrive in pieces, in float64; pieces, also of several ranks,
// are merged pairwise (Chan et al. 1979).
class FeatureStatistics {
 public:
  void add(const at::Tensor& features);  // [N, D]
  void merge(const FeatureStatistics& other);
  int64_t count() const { return count_; }
  const at::Tensor& mean() const { return mean_; }  // [D]
  at::Tensor covariance() const;                    // [D, D], unbiased; count >= 2

 private:
  int64_t count_ = 0;
  at::Tensor mean_, scatter_;  // scatter: sum of outer products of deviations
};

// Squared Frechet distance of two normal distributions (Dowson and Landau 1982): |m1 - m2|^2 + tr(S1 + S2 - 2
// (S1^1/2 S2 S1^1/2)^1/2). On I3D features of videos it is the FVD (Unterthiner et al. 2018), and rFVD
// between originals and their reconstructions.
double frechet_distance(const at::Tensor& mean1, const at::Tensor& covariance1, const at::Tensor& mean2,
                        const at::Tensor& covariance2);
double frechet_distance(const FeatureStatistics& a, const FeatureStatistics& b);

}  // namespace kinora::core
