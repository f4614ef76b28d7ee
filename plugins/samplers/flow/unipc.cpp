// UniPC for flow matching (Zhao et al. 2023, arXiv 2302.04867): a multistep predictor, and a corrector that
// reuses the next call's prediction, so that a step costs one denoiser call. `steps` calls.
//
// The first step has no history. The last step, to zero, is of first order and is not corrected; diffusers'
// bh1 multiplies infinity by 0 there, this one returns x0 as bh2 does.
#include <algorithm>

#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"
#include "plugins/samplers/flow/schedule.hpp"
#include "plugins/samplers/flow/unipc_step.hpp"

namespace kinora {

class Unipc final : public Sampler {
 public:
  static constexpr uint32_t mix = KINORA_MIX_BLEND;
  struct Options {
    int64_t steps = 50, order = 2;
    double shift = 1;
    std::string solver_type = "bh2", convention = "wan";
    bool lower_order_final = true;
  };
  static void describe(Describe<Options>& d) {
    d.name("unipc").help("UniPC for flow matching, order 1 to 3, plus 1 by its corrector");
    d.option("steps", &Options::steps).range(1, 100000).help("number of steps, one denoiser call each");
    d.option("shift", &Options::shift).above(0).help(
        "shift of the levels; above 1: more steps at high noise; Wan 5 or 3");
    d.option("order", &Options::order).range(1, 3).help("order of the predictor: number of predictions it uses");
    d.option("solver_type", &Options::solver_type)
        .choices({"bh1", "bh2"})
        .help("B(h) of the paper: h, or e^h - 1");
    d.option("lower_order_final", &Options::lower_order_final)
        .help("order 2 and 1 for the last steps; else only the step to zero has order 1");
    d.option("convention", &Options::convention)
        .choices({"wan", "diffusers"})
        .help(
            "levels from 0.999 down to 0 before the shift (Wan, diffusers before 0.37), or from 1 to 0.001");
  }
  explicit Unipc(const Options& o) : o_(o) {
    if (o.convention == "wan") {
      s_ = flow_levels(o.steps, o.shift, 0.999, 0, o.steps + 1);
    } else {
      s_ = flow_levels(o.steps, o.shift, 1, 0.001, o.steps + 1);
      s_[0] -= 1e-6;  // at 1 lambda is infinite
    }
  }

  std::vector<double> levels() const override { return s_; }

  Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) override {
    Tensor x = denoise.begin(noise, 1), start;  // start: corrected x where the last predictor began
    std::deque<Prediction> history;
    const bool bh1 = o_.solver_type == "bh1";
    int64_t order = 0;
    const auto first = static_cast<int64_t>(denoise.first());
    for (int64_t i = first; i < o_.steps; ++i) {
      const double s = s_[static_cast<size_t>(i)];
      const Tensor x0 = denoise(x, s);
      if (i > first) x = unipc_step(start, s, history, order, bh1, x0);
      history.push_front({s, x0});
      if (history.size() > 3) history.pop_back();
      order = std::min({o_.order, i - first + 1, o_.lower_order_final ? o_.steps - i : o_.order});
      start = x;
      x = unipc_step(start, s_[static_cast<size_t>(i) + 1], history, order, bh1);
      run.progress(i + 1, o_.steps, x0.get());
    }
    return x;
  }

 private:
  Options o_;
  std::vector<double> s_;
};
KINORA_COMPONENT(Unipc)

}  // namespace kinora
