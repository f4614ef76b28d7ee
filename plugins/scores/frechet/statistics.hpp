// Mean and covariance of feature vectors, and the distance of the normal distributions that have them.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace kinora::frechet {

// Mean and covariance of feature vectors that arrive in pieces, in float64; pieces, also of several ranks,
// are merged pairwise (Chan et al. 1979).
class FeatureStatistics {
 public:
  FeatureStatistics() = default;
  // scatter [D, D]: sum of outer products of deviations from the mean [D]; both float64.
  FeatureStatistics(int64_t count, at::Tensor mean, at::Tensor scatter);
  void add(const at::Tensor& features);  // [N, D]
  void merge(const FeatureStatistics& other);
  int64_t count() const { return count_; }
  const at::Tensor& mean() const { return mean_; }  // undefined if count is 0, like scatter
  const at::Tensor& scatter() const { return scatter_; }
  at::Tensor covariance() const;  // [D, D], unbiased; count >= 2

 private:
  int64_t count_ = 0;
  at::Tensor mean_, scatter_;
};

// Squared Frechet distance of two normal distributions (Dowson and Landau 1982): |m1 - m2|^2 + tr(S1 + S2 - 2
// (S1^1/2 S2 S1^1/2)^1/2). On I3D features of videos it is the FVD (Unterthiner et al. 2018), and rFVD
// between originals and their reconstructions.
double frechet_distance(const at::Tensor& mean1, const at::Tensor& covariance1, const at::Tensor& mean2,
                        const at::Tensor& covariance2);
double frechet_distance(const FeatureStatistics& a, const FeatureStatistics& b);

}  // namespace kinora::frechet
