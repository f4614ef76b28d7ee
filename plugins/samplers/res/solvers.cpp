#include "plugins/samplers/res/solvers.hpp"

#include <cmath>
#include <map>

#include "kinora/options.hpp"

namespace kinora {

Tensor along(const Tensor& x, double s, double t, const Tensor& x0) {
  return x0 * ((s - t) / s) + x * (t / s);
}

Tensor exponential(const Tensor& x, double s, double t, const Tensor& x0_s, double m, const Tensor& x0_m) {
  const double h = std::log(s / t), to_m = std::log(s / m);  // differences of lambda
  if (std::abs(h) <= 1e-6 || std::abs(to_m) <= 1e-6)
    throw Error(KINORA_INVALID,
                "the noise levels " + detail::toml_float(m) + ", " + detail::toml_float(s) + " and " +
                    detail::toml_float(t) +
                    " are too close for a second-order step; take fewer steps or another s_churn");
  const double phi1 = std::expm1(-h) / -h, phi2 = (phi1 - 1) / -h, c2 = to_m / h;
  const double b2 = phi2 / c2, b1 = phi1 - b2;
  return x * (t / s) + x0_s * (h * b1) + x0_m * (h * b2);
}

namespace {

Tensor euler(const Tensor& x, double s, double t, const Ask& ask) { return along(x, s, t, ask(x, s)); }

Tensor mid(const Tensor& x, double s, double t, const Ask& ask) {
  const double m = std::sqrt(s * t);
  const Tensor x0_s = ask(x, s);
  return exponential(x, s, t, x0_s, m, ask(along(x, s, m, x0_s), m));
}

// The whole step uses the prediction of its middle: no weight is negative.
Tensor mid_stable(const Tensor& x, double s, double t, const Ask& ask) {
  const double m = std::sqrt(s * t);
  return along(x, s, t, ask(euler(x, s, m, ask), m));
}

// The trapezoid on the predictions.
Tensor heun_edm(const Tensor& x, double s, double t, const Ask& ask) {
  const Tensor x0_s = ask(x, s), x0_t = ask(along(x, s, t, x0_s), t);
  return along(x, s, t, (x0_s + x0_t) / 2);
}

// Heun as published, whose slope at the start uses x from the step's end, that is t / s of the slope: the
// rule is then of first order.
Tensor heun_naive(const Tensor& x, double s, double t, const Ask& ask) {
  const Tensor x0_s = ask(x, s), x_t = along(x, s, t, x0_s);
  const Tensor slope_s = (x_t - x0_s) / s, slope_t = (x_t - ask(x_t, t)) / t;
  return x + (slope_s + slope_t) * ((t - s) / 2);
}

// Kutta's third-order rule.
Tensor kutta_naive(const Tensor& x, double s, double t, const Ask& ask) {
  const double m = (s + t) / 2;
  const Tensor x0_s = ask(x, s), x_m = along(x, s, m, x0_s);
  const Tensor slope_s = (x - x0_s) / s, slope_m = (x_m - ask(x_m, m)) / m;
  const Tensor x_t = x + (2 * slope_m - slope_s) * (t - s);
  const Tensor slope_t = (x_t - ask(x_t, t)) / t;
  return x + (slope_s + 4 * slope_m + slope_t) * ((t - s) / 6);
}

}  // namespace

Solver single_step(const std::string& name) {
  static const std::map<std::string, Solver> solvers = {
      {"1euler", euler},           {"2mid", mid},
      {"2mid_stable", mid_stable}, {"2heun_edm", heun_edm},
      {"2heun_naive", heun_naive}, {"3kutta_naive", kutta_naive}};
  return solvers.at(name);
}

}  // namespace kinora
