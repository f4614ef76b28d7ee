// The exact denoiser of a mixture of isotropic Gaussians: what samplers are measured on, since every number
// is known.
//
// If x0 ~ sum_k w_k N(mu_k, s_k^2 I) and x = x0 + sigma n, the minimiser of EDM's denoising error (Karras et
// al. 2022, arXiv 2206.00364, equation 2) is the posterior mean
//   D(x; sigma) = sum_k r_k(x) (s_k^2 x + sigma^2 mu_k) / (s_k^2 + sigma^2),   r_k(x) ~ w_k N(x; mu_k, (s_k^2
//   + sigma^2) I)
// and with x = (1 - s) x0 + s n the same of the means (1 - s) mu_k and deviations (1 - s) s_k, which holds of pure noise, s = 1, too.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "kinora/abi/noise.h"
#include "kinora/abi/sampler.h"

namespace kinora::core {

class Mixture {
 public:
  // mean [K, D], std [K] >= 0, weight [K] >= 0 of any sum above 0; any floating dtype, kept as float64 on the
  // CPU. Throws Error(KINORA_INVALID) that names the tensor.
  Mixture(const at::Tensor& mean, const at::Tensor& std, const at::Tensor& weight);

  // x [N, D], mixed of x0 and n as KINORA_MIX_* says, sigma [N] -> x0 [N, D], float64. Counts as one call, whatever N.
  at::Tensor denoise(const at::Tensor& x, const at::Tensor& sigma, uint32_t mix = KINORA_MIX_ADD);
  // noise [N, D] of any floating dtype as float64. Throws Error(KINORA_INVALID) where it is none.
  at::Tensor noise(const at::Tensor& given) const;

  // For kinora_sampler.sample of a sampler with this KINORA_MIX_*; lives as long as the mixture stays where
  // it is.
  kinora_denoiser abi(uint32_t mix = KINORA_MIX_ADD);

  int64_t calls() const { return calls_; }
  // Of each call, of its first row, in the sampler's unit.
  const std::vector<double>& sigmas() const { return sigmas_; }

 private:
  void require_rows(const char* name, const at::Tensor& t) const;
  uint32_t mix_ = KINORA_MIX_ADD;
  int64_t calls_ = 0;
  at::Tensor mean_, variance_, log_weight_;
  std::vector<double> sigmas_;
};

}  // namespace kinora::core
