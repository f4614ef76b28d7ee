// Samplers on EDM's grid of noise levels: Heun, Euler and DPM-Solver++(2M).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/options.hpp"
#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"

namespace kinora {
namespace {

// EDM's grid of noise levels. Karras et al. 2022 (arXiv 2206.00364), equation 5.
struct GridOptions {
  int64_t steps = 35;
  double sigma_min = 0.002, sigma_max = 80.0, rho = 7.0;
};

template <class Options>
void describe_grid(Describe<Options>& d) {
  d.option("steps", &Options::steps).range(1, 100000).help("intervals of the grid of noise levels");
  d.option("sigma_min", &Options::sigma_min).above(0).help("last noise level before zero");
  d.option("sigma_max", &Options::sigma_max).above(0).help("first noise level");
  d.option("rho", &Options::rho).above(0).help("curvature of the grid: larger is denser at low noise");
}

// t [steps + 1], descending: `steps` values from sigma_max to sigma_min, then 0. One step visits only
// sigma_max and 0. Throws Error(KINORA_ERROR_INVALID) unless sigma_min < sigma_max.
std::vector<double> karras_grid(const GridOptions& o) {
  if (o.sigma_min >= o.sigma_max)
    throw Error(KINORA_ERROR_INVALID, "sigma_min = " + detail::toml_float(o.sigma_min) +
                                          " must be below sigma_max = " + detail::toml_float(o.sigma_max));
  const double first = std::pow(o.sigma_max, 1 / o.rho), last = std::pow(o.sigma_min, 1 / o.rho);
  std::vector<double> t{o.sigma_max};
  for (int64_t i = 1; i < o.steps; ++i)
    t.push_back(
        std::pow(first + static_cast<double>(i) / static_cast<double>(o.steps - 1) * (last - first), o.rho));
  t.push_back(0);
  return t;
}

}  // namespace

// EDM's second-order sampler: an Euler step, then the trapezoid with the slope at the step's end. 2 * steps -
// 1 denoiser calls, since the last step, to zero, is an Euler step. Karras et al. 2022 (arXiv 2206.00364),
// Algorithm 1; with s_churn > 0 Algorithm 2, which first adds fresh noise.
class EdmHeun final : public Sampler {
 public:
  struct Options : GridOptions {
    double s_churn = 0, s_min = 0, s_max = INFINITY, s_noise = 1;
    std::string compat = "none";
  };
  static void describe(Describe<Options>& d) {
    d.name("edm-heun").help("EDM's Heun sampler, order 2, with optional churn");
    describe_grid(d);
    d.option("s_churn", &Options::s_churn)
        .at_least(0)
        .help("noise added over the whole run, in units of steps; 0: none");
    d.option("s_min", &Options::s_min).at_least(0).help("lowest noise level with churn");
    d.option("s_max", &Options::s_max).at_least(0).help("highest noise level with churn");
    d.option("s_noise", &Options::s_noise).at_least(0).help("standard deviation of the added noise");
    d.option("compat", &Options::compat)
        .choices({"none", "nemo"})
        .help(
            "nemo: the corrector calls the denoiser at the step's start, a defect of NeMo, DFM and Cosmos "
            "that reduces the order to 1");
  }
  explicit EdmHeun(const Options& o) : o_(o), t_(karras_grid(o)) {}

  std::vector<double> levels() const override { return t_; }

  Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) override {
    Tensor x = denoise.begin(noise, t_[0]);
    for (auto i = static_cast<int64_t>(denoise.first()); i < o_.steps; ++i) {
      const double t = add_noise(x, i, run), next = t_[static_cast<size_t>(i) + 1];
      Tensor x0 = denoise(x, t);
      const Tensor slope = (x - x0) / t;
      const Tensor euler = x + slope * (next - t);
      if (next > 0) {
        // With the denoiser of the step's start, euler - x0 is slope * next: the "corrected" slope equals the
        // slope.
        x0 = o_.compat == "nemo" ? denoise(x, t) : denoise(euler, next);
        x = x + (slope + (euler - x0) / next) * (0.5 * (next - t));
      } else {
        x = euler;
      }
      run.progress(i + 1, o_.steps, x0.get());
    }
    return x;
  }

 private:
  // Raises x from noise level t_[i] to (1 + gamma) t_[i], which it returns. Algorithm 2, lines 4 to 6.
  double add_noise(Tensor& x, int64_t i, const Run& run) const {
    const double t = t_[static_cast<size_t>(i)];
    if (o_.s_churn <= 0 || t < o_.s_min || t > o_.s_max) return t;
    const double gamma = std::min(o_.s_churn / static_cast<double>(o_.steps), std::sqrt(2.0) - 1);
    const double raised = t + gamma * t;
    const std::string key = "edm-heun.churn." + std::to_string(i);
    const Tensor fresh = Tensor::adopt(run.noise(key.c_str(), x.get()));
    x = x + fresh * (o_.s_noise * std::sqrt(raised * raised - t * t));
    return raised;
  }

  Options o_;
  std::vector<double> t_;
};
KINORA_COMPONENT(EdmHeun)

// First order on EDM's grid: each step follows the slope at its start. One denoiser call per step; equal to
// DDIM in EDM's variables (Karras et al. 2022, arXiv 2206.00364, section 3).
class Euler final : public Sampler {
 public:
  struct Options : GridOptions {
    std::string final = "zero";
  };
  static void describe(Describe<Options>& d) {
    d.name("euler").help("Euler's method on EDM's grid, order 1");
    describe_grid(d);
    d.option("final", &Options::final)
        .choices({"zero", "sigma_min"})
        .help("last noise level; sigma_min, as in diffusers' Cosmos pipelines, saves a step");
  }
  explicit Euler(const Options& o) : t_(karras_grid(o)) {
    if (o.final == "zero") return;
    if (o.steps < 2) throw Error(KINORA_ERROR_INVALID, "final = \"sigma_min\" needs steps of at least 2");
    t_.pop_back();
  }

  std::vector<double> levels() const override { return t_; }

  Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) override {
    Tensor x = denoise.begin(noise, t_[0]);
    const size_t steps = t_.size() - 1;
    for (size_t i = denoise.first(); i < steps; ++i) {
      const Tensor x0 = denoise(x, t_[i]);
      x = x + (x - x0) * ((t_[i + 1] - t_[i]) / t_[i]);
      run.progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(steps), x0.get());
    }
    return x;
  }

 private:
  std::vector<double> t_;
};
KINORA_COMPONENT(Euler)

// DPM-Solver++(2M): a multistep solver of second order in h = ln(sigma / next), which interpolates the
// predicted data. Lu et al. 2022 (arXiv 2211.01095), Algorithm 2, in EDM's variables (alpha = 1). One
// denoiser call per step. The first step, without a history, and the last, to zero (h is infinite), are of
// first order.
class Dpmpp2m final : public Sampler {
 public:
  struct Options : GridOptions {
    std::string solver_type = "midpoint";
  };
  static void describe(Describe<Options>& d) {
    d.name("dpmpp-2m").help("DPM-Solver++ 2M on EDM's grid, order 2, one denoiser call per step");
    describe_grid(d);
    d.option("solver_type", &Options::solver_type)
        .choices({"midpoint", "heun"})
        .help("integration of the prediction's slope: by the midpoint, or exactly");
  }
  explicit Dpmpp2m(const Options& o) : o_(o), t_(karras_grid(o)) {}

  std::vector<double> levels() const override { return t_; }

  Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) override {
    Tensor x = denoise.begin(noise, t_[0]), before;
    const size_t steps = t_.size() - 1;
    for (size_t i = denoise.first(); i < steps; ++i) {
      const Tensor x0 = denoise(x, t_[i]);
      const double ratio = t_[i + 1] / t_[i];
      Tensor next = x * ratio + x0 * (1 - ratio);
      if (before.defined() && t_[i + 1] > 0) {
        // Half of the slope over the whole step (the paper), or the integral of the line through both
        // predictions.
        const double h = -std::log(ratio), r = std::log(t_[i - 1] / t_[i]) / h;
        const double of_slope = o_.solver_type == "heun" ? 1 + std::expm1(-h) / h : -0.5 * std::expm1(-h);
        next = next + (x0 - before) * (of_slope / r);
      }
      x = next;
      before = x0;
      run.progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(steps), x0.get());
    }
    return x;
  }

 private:
  Options o_;
  std::vector<double> t_;
};
KINORA_COMPONENT(Dpmpp2m)

KINORA_PLUGIN(EdmHeun, Euler, Dpmpp2m)

}  // namespace kinora
