// Euler's method along the line x = (1 - s) x0 + s n: each step follows the velocity (x - x0) / s at its
// start. One denoiser call per step.
//
// The grid "diffusers" is FlowMatchEulerDiscreteScheduler's with the intended meaning of `shift`. Without explicit levels, that
// class takes its range from levels that are already shifted and shifts them again, so that its last level
// moves from 0.005 to 0.024 at shift 5; with explicit levels, as in pipelines, it shifts once, as here.
// "diffusers-alone" is the class without explicit levels, as Wan's pipelines use it.
#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"
#include "plugins/samplers/flow/schedule.hpp"

namespace kinora {

class FlowEuler final : public Sampler {
 public:
  static constexpr uint32_t mix = KINORA_MIX_BLEND;
  struct Options {
    int64_t steps = 50;
    double shift = 1;
    std::string convention = "diffusers";
  };
  static void describe(Describe<Options>& d) {
    d.name("flow-euler").help("Euler's method for flow matching, order 1");
    d.option("steps", &Options::steps).range(1, 100000).help("number of steps, one denoiser call each");
    d.option("shift", &Options::shift).above(0).help(
        "shift of the levels; above 1: more steps at high noise; Wan 5 or 3");
    d.option("convention", &Options::convention)
        .choices({"diffusers", "uniform", "diffusers-alone"})
        .help(
            "levels before the shift: `steps` levels from 1 to 0.001, then 0; or 1, 1 - 1 / steps, ..., 0; or "
            "those of diffusers' class without explicit levels, which shifts the 0.001 twice");
  }
  explicit FlowEuler(const Options& o)
      : s_(o.convention == "uniform" ? flow_levels(o.steps, o.shift, 1, 0, o.steps + 1)
                                     : flow_levels(o.steps, o.shift, 1, last_of(o), o.steps)) {}

  std::vector<double> levels() const override { return s_; }

  Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) override {
    Tensor x = denoise.begin(noise, 1);
    const size_t steps = s_.size() - 1;
    for (size_t i = denoise.first(); i < steps; ++i) {
      const Tensor x0 = denoise(x, s_[i]);
      x = x + (x - x0) * ((s_[i + 1] - s_[i]) / s_[i]);
      run.progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(steps), x0.get());
    }
    return x;
  }

 private:
  // u of the last level before 0.
  static double last_of(const Options& o) {
    return o.convention == "diffusers" ? 0.001 : o.shift * 0.001 / (1 + (o.shift - 1) * 0.001);
  }
  std::vector<double> s_;
};
KINORA_COMPONENT(FlowEuler)

}  // namespace kinora
