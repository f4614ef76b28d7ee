// The sampler of few-step models that are distilled on their own output: Self-Forcing (Huang et al. 2025, arXiv
// 2506.08009, Algorithm 2) and LongLive 1. Each step estimates the clean sample x0 and mixes fresh noise into it, for
// the next level: x = (1 - s) x0 + s n. The last estimate is the sample. One denoiser call per step.
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/plugin.hpp"
#include "kinora/sampler.hpp"
#include "kinora/tensor.hpp"

namespace kinora {

// The fresh noise of a video [B, C, T, H, W] is drawn frame by frame. It is a function of (seed, chunk, step, frame,
// sample, element), where the host mixes seed and chunk into the keys and the frame counts from the call's first. So a
// frame gets the same noise however many frames follow it in the call.
class FlowRenoise final : public Sampler {
 public:
  static constexpr uint32_t mix = KINORA_MIX_RECTIFIED_FLOW;
  struct Options {
    std::vector<double> timesteps = {1000, 750, 500, 250};
    double shift = 5;
    std::string convention = "self-forcing";
  };
  static void describe(Describe<Options>& d) {
    d.name("flow-renoise")
        .help("sampler of few-step distilled models: estimate, then fresh noise (Self-Forcing)");
    d.option("timesteps", &Options::timesteps)
        .help("levels before the shift, in thousandths, descending; one denoiser call each");
    d.option("shift", &Options::shift)
        .above(0)
        .help(
            "shift of the levels; above 1: more steps at high noise; 1: timesteps are the levels themselves");
    d.option("convention", &Options::convention)
        .choices({"self-forcing", "wan"})
        .help("level of timestep 1000 before the shift: 1, or 0.999 as on UniPC's grid (Wan, LongLive 2.0)");
  }
  explicit FlowRenoise(const Options& o) {
    if (o.timesteps.empty())
      throw Error(KINORA_ERROR_INVALID,
                  "timesteps is empty; give one or more, such as [1000, 750, 500, 250]");
    for (size_t i = 0; i < o.timesteps.size(); ++i) {
      const double t = o.timesteps[i];
      if (!(t > 0 && t <= 1000) || (i > 0 && t >= o.timesteps[i - 1]))
        throw Error(KINORA_ERROR_INVALID, "timesteps[" + std::to_string(i) + "] = " + detail::toml_float(t) +
                                              ": timesteps must descend within (0, 1000]");
      const double u = t / 1000 * (o.convention == "wan" ? 0.999 : 1);
      s_.push_back(o.shift * u / (1 + (o.shift - 1) * u));
    }
    s_.push_back(0);
  }

  std::vector<double> levels() const override { return s_; }

  Tensor sample(const Denoiser& denoise, const Tensor& noise, const Run& run) override {
    Tensor x = denoise.begin(noise, 1);
    const size_t steps = s_.size() - 1;
    for (size_t i = denoise.first(); i < steps; ++i) {
      const Tensor x0 = denoise(x, s_[i]);
      const double next = s_[i + 1];
      x = next > 0 ? x0 * (1 - next) + fresh(x0, i, run) * next : x0;
      run.progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(steps), x0.get());
    }
    return x;
  }

 private:
  // Standard normal numbers of like's shape, for the end of step i.
  static Tensor fresh(const Tensor& like, size_t i, const Run& run) {
    const std::string key = "flow-renoise/" + std::to_string(i);
    if (like.dim() != 5) return run.noise(key, like);
    std::vector<Tensor> frames;
    for (int64_t t = 0; t < like.size(2); ++t)
      frames.push_back(run.noise(key + "/" + std::to_string(t), op("aten::select", "int", {like, 2, t})));
    return op("aten::stack", "", {frames, 2});
  }

  std::vector<double> s_;
};
KINORA_COMPONENT(FlowRenoise)

}  // namespace kinora
