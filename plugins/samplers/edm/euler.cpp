// First order on EDM's grid: each step follows the slope at its start. One denoiser call per step; equal to DDIM
// in EDM's variables (Karras et al. 2022, arXiv 2206.00364, section 3).
#include <string>

#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"
#include "plugins/samplers/edm/grid.hpp"

namespace kinora {

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
        .help(
            "last noise level; sigma_min, as in diffusers' Cosmos pipelines, saves a step");
  }
  explicit Euler(const Options& o) : t_(karras_grid(o)) {
    if (o.final == "zero") return;
    if (o.steps < 2) throw Error(KINORA_INVALID, "final = \"sigma_min\" needs steps of at least 2");
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

}  // namespace kinora
