// DPM-Solver++(2M): a multistep solver of second order in h = ln(sigma / next), which interpolates the predicted
// data. Lu et al. 2022 (arXiv 2211.01095), Algorithm 2, in EDM's variables (alpha = 1). One denoiser
// call per step. The first step, without a history, and the last, to zero (h is infinite), are of first order.
#include <cmath>

#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"
#include "plugins/samplers/edm/grid.hpp"

namespace kinora {

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
        // Half of the slope over the whole step (the paper), or the integral of the line through both predictions.
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

}  // namespace kinora
