// EDM's second-order sampler: an Euler step, then the trapezoid with the slope at the step's end. 2 * steps -
// 1 denoiser calls, since the last step, to zero, is an Euler step. Karras et al. 2022 (arXiv 2206.00364),
// Algorithm 1; with s_churn > 0 Algorithm 2, which first adds fresh noise.
#include <algorithm>
#include <cmath>

#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"
#include "plugins/samplers/edm/grid.hpp"

namespace kinora {

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

}  // namespace kinora
