// Flow matching on the straight line x = (1 - s) x0 + s n: the network F learns its velocity n - x0, and
// D(x; s) = x - s F (Lipman et al. 2022, arXiv 2210.02747; densities and shift of s: Esser et al. 2024, arXiv
// 2403.03206).
#include <algorithm>
#include <cmath>

#include "kinora/loss.hpp"
#include "kinora/plugin.hpp"
#include "plugins/losses/share.hpp"

namespace kinora {

class Flow final : public Loss<Tensor> {
 public:
  static constexpr uint32_t mix = KINORA_MIX_RECTIFIED_FLOW;
  struct Options {
    std::string density = "logit-normal", shift_type = "constant", weighting = "none", limits = "truncate";
    double logit_mean = 0, logit_std = 1, mode_scale = 1.29;
    double shift = 1, base_shift = 0.5, max_shift = 1.15;
    int64_t tokens = 0;
    double sigma_min = 0, sigma_max = 1, timestep_scale = 1000;
    bool whole_timesteps = false;
  };
  static void describe(Describe<Options>& d) {
    d.name("flow").help("flow matching: the velocity of the line between latent and noise (Wan, NeMo DFM)");
    d.option("density", &Options::density)
        .choices({"uniform", "logit-normal", "mode"})
        .help("distribution of drawn levels, before the shift");
    d.option("logit_mean", &Options::logit_mean).help("logit-normal: mean of ln(s / (1 - s))");
    d.option("logit_std", &Options::logit_std).above(0).help("logit-normal: its standard deviation");
    d.option("mode_scale", &Options::mode_scale)
        .range(-1, 1.75)
        .help("mode: above 0 prefers middle levels, below 0 the ends");
    d.option("shift_type", &Options::shift_type)
        .choices({"constant", "linear", "sqrt"})
        .help(
            "source of the shift, which maps drawn levels u to shift u / (1 + (shift - 1) u): `shift`, or a "
            "value that grows with `tokens`");
    d.option("shift", &Options::shift).above(0).help("constant: 1 for no shift, Wan 5 or 3, DFM 3");
    d.option("base_shift", &Options::base_shift).help("linear: ln(shift) without tokens");
    d.option("max_shift", &Options::max_shift).help("linear: ln(shift) at 4096 tokens");
    d.option("tokens", &Options::tokens)
        .at_least(0)
        .help("linear, sqrt: tokens of a latent; sqrt gives 3 at 16384 and at least 1");
    d.option("sigma_min", &Options::sigma_min).range(0, 1).help("lower limit of shifted levels");
    d.option("sigma_max", &Options::sigma_max).range(0, 1).help("upper limit of shifted levels");
    d.option("limits", &Options::limits)
        .choices({"truncate", "clamp"})
        .help(
            "truncate: levels are drawn from their distribution within sigma_min and sigma_max; clamp: "
            "levels "
            "outside become the nearer limit");
    d.option("weighting", &Options::weighting)
        .choices({"none", "linear"})
        .help("linear: 1 + shift * sigma, as NeMo DFM");
    d.option("timestep_scale", &Options::timestep_scale).above(0).help("factor of the model's timestep, s");
    d.option("whole_timesteps", &Options::whole_timesteps)
        .help("timesteps rounded down to whole numbers, as in the samplers of Wan and diffusers");
    d.input("latent", "[B, C, T, H, W]", "float", "clean");
    d.input("noise", "[B, C, T, H, W]", "float", "standard normal");
    d.input("sigma", "[B] or [B, T]", "float", "s in [0, 1] of each sample, or of each of its frames");
    d.input("prediction", "[B, C, T, H, W]", "float", "F, the model's output; accepted as `output` too");
    d.output("loss", "[B]", "float", "mean of weight * (F - target)^2 over a sample's elements");
    d.output("target", "[B, C, T, H, W]", "float", "target of F: noise - latent");
    d.output("weight", "[B] or [B, T]", "float");
    d.output("timestep", "[B] or [B, T]", "float", "the model's timestep");
  }
  explicit Flow(const Options& o) : o_(o), shift_(shift_of(o)) {
    if (o.sigma_min >= o.sigma_max)
      throw Error(KINORA_ERROR_INVALID, "sigma_min = " + detail::toml_float(o.sigma_min) +
                                            " must be below sigma_max = " + detail::toml_float(o.sigma_max));
    if (o.limits == "truncate") kept_ = Share::between(share_below(o.sigma_min), share_below(o.sigma_max));
  }

  Tensor level(const Tensor& uniform) override {
    const Tensor u = drawn(kept_.of(uniform.to(KINORA_DTYPE_FLOAT64)));
    return op("aten::clamp", "", {u * shift_ / (u * (shift_ - 1) + 1), o_.sigma_min, o_.sigma_max});
  }

  Tensor noisy(const Tensor& latent, const Tensor& noise, const Tensor& sigma) override {
    const Tensor x0 = wide(latent), s = sigma.to(KINORA_DTYPE_FLOAT64);
    return (spread(1 + -s, x0) * x0 + spread(s, x0) * as(noise, x0)).to(latent.dtype());
  }

  // The timestep is at least float32: in bfloat16 neighbouring timesteps would be equal.
  Input input(const Tensor& x, const Tensor& sigma) override { return {x, as(timestep(sigma), wide(x))}; }

  Tensor estimate(const Tensor& x, const Tensor& sigma, const Tensor& output) override {
    const Tensor w = wide(x);
    return w - spread(sigma, w) * as(output, w);
  }

  std::vector<Tensor> evaluate(const Named<Tensor>& in) override {
    const Tensor x0 = wide(in["latent"]);
    const Tensor &sigma = in["sigma"], &f = in.has("prediction") ? in["prediction"] : in["output"];
    const Tensor s = sigma.to(KINORA_DTYPE_FLOAT64), target = as(in["noise"], x0) - x0;
    const Tensor weight = o_.weighting == "linear" ? 1 + s * shift_ : full_like(s, 1);
    const Tensor loss = (square(as(f, x0) - target) * spread(weight, x0)).mean(of_sample(x0));
    return {loss, target, as(weight, x0), as(timestep(sigma), x0)};
  }

 private:
  // NeMo DFM's shifts (Esser et al. 2024, with the shift from the number of tokens).
  static double shift_of(const Options& o) {
    if (o.shift_type == "constant") return o.shift;
    if (o.tokens == 0)
      throw Error(KINORA_ERROR_INVALID,
                  "shift_type = \"" + o.shift_type + "\" needs `tokens`, the number of tokens of a latent");
    const auto tokens = static_cast<double>(o.tokens);
    if (o.shift_type == "linear")
      return std::exp(o.base_shift + (o.max_shift - o.base_shift) * tokens / 4096);
    return std::max(1.0, 3 * std::sqrt(tokens / 16384));
  }

  // The inverse of the cumulative distribution function. Mode: Esser et al. 2024, ascending.
  Tensor drawn(const Tensor& u) const {
    if (o_.density == "uniform") return u;
    if (o_.density == "logit-normal")
      return op("aten::sigmoid", "", {op("aten::special_ndtri", "", {u}) * o_.logit_std + o_.logit_mean});
    const Tensor sine = op("aten::sin", "", {u * (std::acos(-1.0) / 2)});
    return op("aten::clamp", "", {u - (square(sine) - u) * o_.mode_scale, 0.0, 1.0});
  }

  // The share of the untruncated levels below `sigma`: the distribution function.
  double share_below(double sigma) const {
    if (sigma <= 0) return 0;
    if (sigma >= 1) return 1;
    const double u = sigma / (shift_ - (shift_ - 1) * sigma);  // before the shift
    if (o_.density == "uniform") return u;
    if (o_.density == "logit-normal")
      return normal_share_below((std::log(u / (1 - u)) - o_.logit_mean) / o_.logit_std);
    // The inverse of `drawn` for `mode` has no closed form; `drawn` ascends, so halving the interval finds it.
    double low = 0, high = 1;
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2, sine = std::sin(middle * std::acos(-1.0) / 2);
      (middle - o_.mode_scale * (sine * sine - middle) < u ? low : high) = middle;
    }
    return (low + high) / 2;
  }

  Tensor timestep(const Tensor& sigma) const {
    const Tensor t = sigma.to(KINORA_DTYPE_FLOAT64) * o_.timestep_scale;
    return o_.whole_timesteps ? op("aten::floor", "", {t}) : t;
  }

  Options o_;
  double shift_;
  Share kept_;
};
KINORA_COMPONENT(Flow)

KINORA_PLUGIN(Flow)

}  // namespace kinora
