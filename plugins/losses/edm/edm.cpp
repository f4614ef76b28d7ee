// EDM's training objective. Karras et al. 2022 (arXiv 2206.00364), equations 2, 7 and 8: the network F
// receives c_in x and c_noise, D(x; sigma) = c_skip x + c_out F estimates the clean latent x0, and the loss
// is weight * (D - x0)^2 with a log-normal sigma. A model that also returns logvar, its log-variance at that
// level, is trained on loss * exp(-logvar) + logvar (Kendall et al. 2018, arXiv 1705.07115).
#include "kinora/loss.hpp"
#include "kinora/plugin.hpp"
#include "kinora/tensor.hpp"
#include "plugins/losses/edm/log_normal.hpp"

namespace kinora {
namespace {

// EDM's preconditioning. Karras et al. 2022 (arXiv 2206.00364), table 1, rightmost column, with s = sigma,
// d = sigma_data:
//   c_skip = d^2 / (s^2 + d^2)      c_out = s d / sqrt(s^2 + d^2)      c_in = 1 / sqrt(s^2 + d^2)
//   c_noise = ln(s) / 4             weight = (s^2 + d^2) / (s d)^2 = 1 / c_out^2
// Float64, each of sigma's shape.
struct Scalings {
  Tensor skip, out, in, noise, weight;
};

Scalings scalings(const Tensor& sigma, double sigma_data) {
  const Tensor s = sigma.to(KINORA_DTYPE_FLOAT64);
  const Tensor total = square(s) + sigma_data * sigma_data, root = sqrt(total);
  const Tensor one = full_like(total, 1);
  return {sigma_data * sigma_data * (one / total), s * sigma_data / root, one / root, log(s) / 4,
          total / square(s * sigma_data)};
}

}  // namespace

class Edm final : public Loss<Tensor> {
 public:
  struct Options : LevelOptions {
    double sigma_data = 0.5, loss_scale = 1;
    std::string loss_reduce = "mean";
  };
  static void describe(Describe<Options>& d) {
    d.name("edm").help("EDM: denoising at log-normal noise levels, preconditioned");
    d.option("sigma_data", &Options::sigma_data).above(0).help("standard deviation of the latents");
    describe_levels(d);
    d.option("loss_reduce", &Options::loss_reduce)
        .choices({"mean", "sum"})
        .help("reduction over a sample's elements; Cosmos 1 was trained on the mean");
    d.option("loss_scale", &Options::loss_scale).above(0).help("factor of the loss");
    d.input("latent", "[B, C, T, H, W]", "float", "clean; scaled to standard deviation sigma_data");
    d.input("noise", "[B, C, T, H, W]", "float", "standard normal");
    d.input("sigma", "[B] or [B, T]", "float", "noise level of each sample, or of each of its frames");
    d.input("prediction", "[B, C, T, H, W]", "float", "F, the model's output; accepted as `output` too");
    d.input("logvar", "[B] or [B, T]", "float", "log-variance that the model also returned; may be absent");
    d.output("loss", "[B]", "float", "mean of weight * (D - latent)^2 over a sample's elements");
    d.output("target", "[B, C, T, H, W]", "float", "target of F: (latent - c_skip x) / c_out");
    for (const char* scaling : {"weight", "c_skip", "c_out", "c_in", "c_noise"})
      d.output(scaling, "[B] or [B, T]", "float");
  }
  explicit Edm(const Options& o) : o_(o), levels_(o) {}

  Tensor level(const Tensor& uniform) override { return levels_(uniform); }

  Tensor noisy(const Tensor& latent, const Tensor& noise, const Tensor& sigma) override {
    const Tensor x0 = wide(latent);
    return (x0 + spread(sigma, x0) * as(noise, x0)).to(latent.dtype());
  }

  // The timestep is at least float32: in bfloat16 neighbouring levels would be equal.
  Input input(const Tensor& x, const Tensor& sigma) override {
    const Scalings c = scalings(sigma, o_.sigma_data);
    const Tensor w = wide(x);
    return {(spread(c.in, w) * w).to(x.dtype()), as(c.noise, w)};
  }

  Tensor estimate(const Tensor& x, const Tensor& sigma, const Tensor& output) override {
    const Scalings c = scalings(sigma, o_.sigma_data);
    const Tensor w = wide(x);
    return spread(c.skip, w) * w + spread(c.out, w) * as(output, w);
  }

  std::vector<Tensor> evaluate(const Named<Tensor>& in) override {
    const Tensor x0 = wide(in["latent"]);
    const Tensor &sigma = in["sigma"], &f = in.has("prediction") ? in["prediction"] : in["output"];
    const Scalings c = scalings(sigma, o_.sigma_data);
    // weight * c_out^2 = 1, so the loss is (F - target)^2, and target needs no division by a small c_out:
    // (x0 - c_skip (x0 + sigma n)) / c_out = (sigma x0 / sigma_data - sigma_data n) c_in. D - x0 would lose
    // digits.
    const Tensor of_latent = sigma.to(KINORA_DTYPE_FLOAT64) * c.in / o_.sigma_data,
                 of_noise = c.in * o_.sigma_data;
    const Tensor target = spread(of_latent, x0) * x0 - spread(of_noise, x0) * as(in["noise"], x0);
    Tensor error = square(as(f, x0) - target);
    if (in.has("logvar")) {
      const Tensor logvar = spread(wide(in["logvar"]), x0, "logvar");
      error = error * exp(-logvar) + logvar;
    }
    const auto elements = of_sample(x0);
    const Tensor loss =
        o_.loss_reduce == "sum" ? op("aten::sum", "dim_IntList", {error, elements}) : error.mean(elements);
    return {loss * o_.loss_scale, target,       as(c.weight, x0), as(c.skip, x0),
            as(c.out, x0),        as(c.in, x0), as(c.noise, x0)};
  }

 private:
  Options o_;
  LogNormal levels_;
};
KINORA_COMPONENT(Edm)

KINORA_PLUGIN(Edm, RectifiedFlow)

}  // namespace kinora
