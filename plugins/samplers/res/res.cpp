// The samplers of Cosmos Predict 1: the refined exponential solver's multistep rule "2ab" (Zhang et al. 2023,
// arXiv 2308.02157, in the form of Adams and Bashforth) and single-step rules, on EDM's grid of noise
// levels down to sigma_min, where one more call gives the clean sample.
//
// Calls of the denoiser, where order is the digit of the solver's name (1 for 2ab): steps / order, rounded down,
// intervals of `order` calls each, and 1 for final_denoise.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"
#include "plugins/samplers/res/solvers.hpp"

namespace kinora {

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
        .help("denoiser calls before the last; a single-step solver divides them into steps / order intervals");
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
        .help("last denoiser call at sigma_min, whose result is the sample; else the sample is x at sigma_min");
  }
  explicit Res(const Options& o) : o_(o), order_(o.solver == "2ab" ? 1 : o.solver[0] - '0') {
    if (o.sigma_min >= o.sigma_max)
      throw Error(KINORA_INVALID, "sigma_min = " + detail::toml_float(o.sigma_min) +
                                      " must be below sigma_max = " + detail::toml_float(o.sigma_max));
    const int64_t intervals = o.steps / order_;
    if (intervals == 0)
      throw Error(KINORA_INVALID, "steps = " + std::to_string(o.steps) +
                                      " is less than one step of solver \"" + o.solver + "\", which takes " +
                                      std::to_string(order_) + " calls");
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

}  // namespace kinora
