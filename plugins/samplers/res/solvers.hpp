// One step of each solver of Cosmos Predict 1: x at the noise level s -> x at the level t < s.
//
// The probability flow is dx/dsigma = (x - D(x; sigma)) / sigma. The refined exponential solvers (Zhang et
// al. 2023, arXiv 2308.02157) integrate its linear part exactly in lambda = -ln sigma; the "naive" ones are
// Runge-Kutta rules in sigma itself.
#pragma once
#include <functional>
#include <string>

#include "kinora/tensor.hpp"

namespace kinora {

using Ask = std::function<Tensor(const Tensor& x, double sigma)>;  // the denoiser
using Solver = Tensor (*)(const Tensor& x, double s, double t, const Ask& ask);

// A single-step solver: "1euler", "2mid", "2mid_stable", "2heun_edm", "2heun_naive" (of first order: see
// its definition), "3kutta_naive". The name's digit is the number of calls per step.
Solver single_step(const std::string& name);

// Steps to t along the line through x and the prediction x0: exact if x0 is constant.
Tensor along(const Tensor& x, double s, double t, const Tensor& x0);

// Second-order exponential step from the predictions x0_s at s and x0_m at another level m, earlier or
// between (arXiv 2308.02157: b_2 = phi_2 / c_2, b_1 = phi_1 - b_2). Throws Error(KINORA_INVALID) if two of
// the levels nearly coincide.
Tensor exponential(const Tensor& x, double s, double t, const Tensor& x0_s, double m, const Tensor& x0_m);

}  // namespace kinora
