// Rectified flow in the unit of EDM, as Cosmos Predict 2 trains it: x = x0 + sigma n, of which (1 - t) x with
// t = sigma / (1 + sigma) is the straight line between x0 and n. With F the network,
//   D(x; sigma) = (1 - t) x - t F      c_in = 1 - t      c_noise = timestep_scale t
//   weight = (1 + sigma)^2 / sigma^2 = 1 / t^2
// F is the line's velocity n - x0 (Liu et al. 2022, arXiv 2209.03003, equation 1), so the loss is
// (F - (n - x0))^2 at every level.
#include "kinora/loss.hpp"
#include "kinora/plugin.hpp"
#include "plugins/losses/edm/log_normal.hpp"

namespace kinora {

class RectifiedFlow final : public Loss<Tensor> {
 public:
  struct Options : LevelOptions {
    double timestep_scale = 1, loss_scale = 10, sigma_conditional = 1e-4;
  };
  static void describe(Describe<Options>& d) {
    d.name("rectified-flow")
        .help("rectified flow at log-normal noise levels, in EDM's unit (Cosmos Predict 2)");
    describe_levels(d);
    d.option("timestep_scale", &Options::timestep_scale)
        .above(0)
        .help("factor of the model's timestep, sigma / (1 + sigma)");
    d.option("loss_scale", &Options::loss_scale).above(0).help("factor of the loss");
    d.option("sigma_conditional", &Options::sigma_conditional)
        .at_least(0)
        .help("level passed to the model for frames at sigma = 0, which are given and have no loss");
    d.input("latent", "[B, C, T, H, W]", "float", "clean; of standard deviation 1");
    d.input("noise", "[B, C, T, H, W]", "float", "standard normal");
    d.input("sigma", "[B] or [B, T]", "float",
            "noise level of each sample, or of each of its frames; 0: given");
    d.input("prediction", "[B, C, T, H, W]", "float", "F, the model's output; accepted as `output` too");
    d.output("loss", "[B]", "float",
             "loss_scale times the mean of weight * (D - latent)^2 over a sample's elements");
    d.output("target", "[B, C, T, H, W]", "float", "target of F: noise - latent");
    d.output("weight", "[B] or [B, T]", "float", "(1 + sigma)^2 / sigma^2; 0 at sigma = 0");
    d.output("timestep", "[B] or [B, T]", "float", "the model's timestep");
  }
  explicit RectifiedFlow(const Options& o) : o_(o), levels_(o) {}

  Tensor level(const Tensor& uniform) override { return levels_(uniform); }

  Tensor noisy(const Tensor& latent, const Tensor& noise, const Tensor& sigma) override {
    const Tensor x0 = wide(latent);
    return (x0 + spread(sigma, x0) * as(noise, x0)).to(latent.dtype());
  }

  Input input(const Tensor& x, const Tensor& sigma) override {
    const Tensor w = wide(x);
    return {(w / spread(sigma.to(KINORA_DTYPE_FLOAT64) + 1, w)).to(x.dtype()), as(timestep(sigma), w)};
  }

  // At sigma = 0 it is x.
  Tensor estimate(const Tensor& x, const Tensor& sigma, const Tensor& output) override {
    const Tensor w = wide(x), s = sigma.to(KINORA_DTYPE_FLOAT64);
    return w / spread(s + 1, w) - spread(s / (s + 1), w) * as(output, w);
  }

  std::vector<Tensor> evaluate(const Named<Tensor>& in) override {
    const Tensor x0 = wide(in["latent"]);
    const Tensor &sigma = in["sigma"], &f = in.has("prediction") ? in["prediction"] : in["output"];
    const Tensor s = sigma.to(KINORA_DTYPE_FLOAT64), target = as(in["noise"], x0) - x0;
    const Tensor is_made = op("aten::gt", "Scalar", {s, 0.0});
    const Tensor zero = full_like(s, 0),
                 weight = op("aten::where", "self", {is_made, square((s + 1) / s), zero});
    const Tensor loss =
        (square(as(f, x0) - target) * spread(is_made, x0)).mean(of_sample(x0)) * o_.loss_scale;
    return {loss, target, as(weight, x0), as(timestep(s), x0)};
  }

 private:
  Tensor timestep(const Tensor& sigma) const {
    const Tensor s = sigma.to(KINORA_DTYPE_FLOAT64);
    const Tensor told = op("aten::where", "self",
                           {op("aten::gt", "Scalar", {s, 0.0}), s, full_like(s, o_.sigma_conditional)});
    return told / (told + 1) * o_.timestep_scale;
  }

  Options o_;
  LogNormal levels_;
};
KINORA_COMPONENT(RectifiedFlow)

}  // namespace kinora
