// The samplers of Cosmos Predict 1: the refined exponential solver's multistep rule "2ab" (Zhang et al. 2023,
// arXiv 2308.02157, in the form of Adams and Bashforth) and single-step rules, on EDM's grid of noise
// levels down to sigma_min, where one more call gives the clean sample.
//
// Calls of the denoiser, where order is the digit of the solver's name (1 for 2ab): steps / order, rounded
// down, intervals of `order` calls each, and 1 for final_denoise.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "kinora/options.hpp"
#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"
#include "kinora/tensor.hpp"

namespace kinora {
namespace {

using Ask = std::function<Tensor(const Tensor& x, double sigma)>;  // the denoiser
// One step of a solver: x at the noise level s -> x at the level t < s.
//
// The probability flow is dx/dsigma = (x - D(x; sigma)) / sigma. The refined exponential solvers (Zhang et
// al. 2023, arXiv 2308.02157) integrate its linear part exactly in lambda = -ln sigma; the "naive" ones are
// Runge-Kutta rules in sigma itself.
using Solver = Tensor (*)(const Tensor& x, double s, double t, const Ask& ask);

// Steps to t along the line through x and the prediction x0: exact if x0 is constant.
Tensor along(const Tensor& x, double s, double t, const Tensor& x0) {
  return x0 * ((s - t) / s) + x * (t / s);
}

// Second-order exponential step from the predictions x0_s at s and x0_m at another level m, earlier or
// between (arXiv 2308.02157: b_2 = phi_2 / c_2, b_1 = phi_1 - b_2). Throws Error(KINORA_ERROR_INVALID) if two
// of the levels nearly coincide.
Tensor exponential(const Tensor& x, double s, double t, const Tensor& x0_s, double m, const Tensor& x0_m) {
  const double h = std::log(s / t), to_m = std::log(s / m);  // differences of lambda
  if (std::abs(h) <= 1e-6 || std::abs(to_m) <= 1e-6)
    throw Error(KINORA_ERROR_INVALID,
                "the noise levels " + detail::toml_float(m) + ", " + detail::toml_float(s) + " and " +
                    detail::toml_float(t) +
                    " are too close for a second-order step; take fewer steps or another s_churn");
  const double phi1 = std::expm1(-h) / -h, phi2 = (phi1 - 1) / -h, c2 = to_m / h;
  const double b2 = phi2 / c2, b1 = phi1 - b2;
  return x * (t / s) + x0_s * (h * b1) + x0_m * (h * b2);
}

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

// A single-step solver: "1euler", "2mid", "2mid_stable", "2heun_edm", "2heun_naive" (of first order: see
// its definition), "3kutta_naive". The name's digit is the number of calls per step.
Solver single_step(const std::string& name) {
  static const std::map<std::string, Solver> solvers = {
      {"1euler", euler},           {"2mid", mid},
      {"2mid_stable", mid_stable}, {"2heun_edm", heun_edm},
      {"2heun_naive", heun_naive}, {"3kutta_naive", kutta_naive}};
  return solvers.at(name);
}

}  // namespace

class Res final : public Sampler {
 public:
  struct Options {
    std::string solver = "2ab";
    int64_t steps = 35;
    double sigma_min = 0.002, sigma_max = 80, rho = 7;
    double s_churn = 0, s_min = 0, s_max = std::numeric_limits<double>::infinity(), s_noise = 1;
    bool final_denoise = true;
  };
  static void describe(Describe<Options>& d) {
    d.name("res").help("the refined exponential solver and its companions of Cosmos Predict 1");
    d.option("solver", &Options::solver)
        .choices({"2ab", "1euler", "2mid", "2mid_stable", "2heun_edm", "2heun_naive", "3kutta_naive"})
        .help(
            "2ab: multistep, order 2; the others restart each step (2heun_naive is of order 1, as "
            "published)");
    d.option("steps", &Options::steps)
        .range(1, 100000)
        .help(
            "denoiser calls before the last; a single-step solver divides them into steps / order intervals");
    d.option("sigma_min", &Options::sigma_min).above(0).help("last noise level");
    d.option("sigma_max", &Options::sigma_max).above(0).help("first noise level");
    d.option("rho", &Options::rho).above(0).help("curvature of the grid: larger is denser at low noise");
    d.option("s_churn", &Options::s_churn)
        .at_least(0)
        .help("noise added over the whole run, in units of steps; 0: none");
    d.option("s_min", &Options::s_min).at_least(0).help("lower bound of noise levels with churn");
    d.option("s_max", &Options::s_max).at_least(0).help("upper bound of noise levels with churn");
    d.option("s_noise", &Options::s_noise).at_least(0).help("standard deviation of the added noise");
    d.option("final_denoise", &Options::final_denoise)
        .help(
            "last denoiser call at sigma_min, whose result is the sample; else the sample is x at sigma_min");
  }
  explicit Res(const Options& o) : o_(o), order_(o.solver == "2ab" ? 1 : o.solver[0] - '0') {
    if (o.sigma_min >= o.sigma_max)
      throw Error(KINORA_ERROR_INVALID, "sigma_min = " + detail::toml_float(o.sigma_min) +
                                            " must be below sigma_max = " + detail::toml_float(o.sigma_max));
    const int64_t intervals = o.steps / order_;
    if (intervals == 0)
      throw Error(KINORA_ERROR_INVALID, "steps = " + std::to_string(o.steps) +
                                            " is less than one step of solver \"" + o.solver +
                                            "\", which takes " + std::to_string(order_) + " calls");
    const double first = std::pow(o.sigma_max, 1 / o.rho), last = std::pow(o.sigma_min, 1 / o.rho);
    for (int64_t i = 0; i <= intervals; ++i)
      t_.push_back(
          std::pow(first + static_cast<double>(i) / static_cast<double>(intervals) * (last - first), o.rho));
  }

  std::vector<double> levels() const override { return t_; }

  Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) override {
    Tensor x = denoise.begin(noise, t_[0]), x0, before;
    double level_before = 0;
    const Ask ask = [&](const Tensor& at, double sigma) { return x0 = denoise(at, sigma); };
    const auto intervals = static_cast<int64_t>(t_.size()) - 1, all = intervals + (o_.final_denoise ? 1 : 0);
    for (auto i = static_cast<int64_t>(denoise.first()); i < intervals; ++i) {
      const double s = add_noise(x, i, run), t = t_[static_cast<size_t>(i) + 1];
      if (o_.solver == "2ab") {
        ask(x, s);
        x = before.defined() ? exponential(x, s, t, x0, level_before, before) : along(x, s, t, x0);
        before = x0, level_before = s;
      } else {
        x = single_step(o_.solver)(x, s, t, ask);
      }
      run.progress(i + 1, all, x0.get());
    }
    if (!o_.final_denoise) return x;
    x = ask(x, t_.back());
    run.progress(all, all, x0.get());
    return x;
  }

 private:
  // Raises x from noise level t_[i] to (1 + eta) t_[i], which it returns (Karras et al. 2022, Algorithm
  // 2), with Cosmos' divisor, the number of levels, and its limit sqrt(1.2) - 1.
  double add_noise(Tensor& x, int64_t i, const Run& run) const {
    const double t = t_[static_cast<size_t>(i)];
    if (o_.s_churn <= 0 || t <= o_.s_min || t >= o_.s_max) return t;
    const double raised = t + std::min(o_.s_churn / static_cast<double>(t_.size()), std::sqrt(1.2) - 1) * t;
    const std::string key = "res.churn." + std::to_string(i);
    const Tensor fresh = Tensor::adopt(run.noise(key.c_str(), x.get()));
    x = x + fresh * (o_.s_noise * std::sqrt(raised * raised - t * t));
    return raised;
  }

  Options o_;
  int64_t order_;
  std::vector<double> t_;
};
KINORA_COMPONENT(Res)

KINORA_PLUGIN(Res)

}  // namespace kinora
