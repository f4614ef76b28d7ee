// model/patch-discriminator: classifies each patch of space and time as real or reconstructed video.
// The PatchGAN of Isola et al. 2017 (arXiv 1611.07004, appendix 6.1.2) with three-dimensional convolutions,
// as used for tuning video tokenizers. Batch norm is not used, since its statistics depend on how
// samples are grouped; instead group norm, or the spectral norm of Miyato et al. 2018 (arXiv 1802.05957).
#include <string>
#include <vector>

#include "kinora/layers.hpp"
#include "kinora/model.hpp"
#include "kinora/plugin.hpp"

namespace kinora::patch_discriminator {

using at::Tensor;

class PatchDiscriminator final : public Model<at::Tensor> {
 public:
  struct Options {
    int64_t channels = 64, layers = 3, groups = 32, time_stride = 2;
    std::string norm = "spectral";
  };
  static void describe(Describe<Options>& d);
  PatchDiscriminator(const Options& o, const Ctx& ctx);
  // video [B, 3, T, H, W] -> logits [B, 1, t, h, w]
  std::vector<at::Tensor> forward(const Ctx& ctx, const Named<at::Tensor>& in) override;
  int64_t blocks() const override { return static_cast<int64_t>(layers_.size()); }

 private:
  // Convolution 3 x 4 x 4, norm, leaky ReLU. The first layer has no norm, the last neither norm nor ReLU.
  struct Layer {
    kinora_param weight = 0, bias = 0, scale = 0, shift = 0;
    int64_t stride_time = 1, stride_space = 1, groups = 0;
    bool spectral = false, last = false;
    at::Tensor operator()(const Ctx& ctx, const at::Tensor& x) const;
  };
  std::vector<Layer> layers_;
};

// weight / its largest singular value over [out, the rest]; differentiable through both. There is no power
// iteration with state: the value is exact, so the result depends only on the weight.
Tensor spectral(const Tensor& weight) {
  const Tensor w = weight.to(at::promote_types(weight.scalar_type(), at::kFloat)).flatten(1),
               fixed = w.detach();
  // The top left singular vector; the value is then u' w v, whose gradient is that of the singular value.
  const Tensor u = std::get<1>(at::linalg_eigh(at::matmul(fixed, fixed.t()))).select(1, -1);
  Tensor v = at::mv(fixed.t(), u);
  v = v / v.norm().clamp_min(1e-12);
  const Tensor sigma = at::dot(u, at::mv(w, v));
  return (weight / sigma.clamp_min(1e-12)).to(weight.scalar_type());
}

void PatchDiscriminator::describe(Describe<Options>& d) {
  d.name("patch-discriminator")
      .help("Convolutional discriminator of video patches, for fine-tuning tokenizers");
  d.input("video", "[B, 3, T, H, W]", "float", "values in [-1, 1]");
  d.output("logits", "[B, 1, t, h, w]", "float", "logits per patch: high for real, low for reconstructed");
  d.option("channels", &Options::channels)
      .range(1, 4096)
      .help("channels of the first layer; later layers double them up to eight times");
  d.option("layers", &Options::layers).range(1, 8).help("number of layers that halve height and width");
  d.option("time_stride", &Options::time_stride).range(1, 2).help("stride of these layers in frames");
  d.option("norm", &Options::norm)
      .choices({"spectral", "group", "none"})
      .help("normalisation: of weights by their spectral norm, or of activations by groups of channels");
  d.option("groups", &Options::groups).range(1, 4096).help("number of groups of group norm");
}

PatchDiscriminator::PatchDiscriminator(const Options& o, const Ctx& ctx) {
  int64_t in = 3;
  for (int64_t i = 0; i < o.layers + 2; ++i) {
    const bool last = i == o.layers + 1, halves = i < o.layers;
    const int64_t out = last ? 1 : o.channels * std::min<int64_t>(int64_t{1} << i, 8);
    const Declare declare(ctx, "layers." + std::to_string(i) + ".", i);
    Layer l;
    l.stride_space = halves ? 2 : 1;
    l.stride_time = halves ? o.time_stride : 1;
    l.spectral = o.norm == "spectral";
    l.last = last;
    l.weight = declare("conv.weight", {out, in, 3, 4, 4}, Init::normal(0.02));
    l.bias = declare("conv.bias", {out}, Init::zeros());
    if (o.norm == "group" && i > 0 && !last) {
      if (out % o.groups)
        throw Error(KINORA_ERROR_INVALID,
                    "model/patch-discriminator: " + std::to_string(out) +
                        " channels are not in groups of equal size; groups = " + std::to_string(o.groups));
      l.groups = o.groups;
      l.scale = declare("norm.weight", {out}, Init::ones());
      l.shift = declare("norm.bias", {out}, Init::zeros());
    }
    layers_.push_back(l);
    in = out;
  }
}

Tensor PatchDiscriminator::Layer::operator()(const Ctx& ctx, const Tensor& x) const {
  const auto value = [&](kinora_param p) { return value_as(ctx, p, x); };
  const Tensor w =
      spectral ? patch_discriminator::spectral(ctx.value(weight)).to(x.scalar_type()) : value(weight);
  Tensor y = at::conv3d(x, w, value(bias), {stride_time, stride_space, stride_space}, {1, 1, 1});
  if (groups) y = at::group_norm(y, groups, value(scale), value(shift), 1e-5);
  return last ? y : at::leaky_relu(y, 0.2);
}

std::vector<Tensor> PatchDiscriminator::forward(const Ctx& ctx, const Named<Tensor>& in) {
  Tensor x = in["video"];
  if (x.dim() != 5 || x.size(1) != 3 || !x.is_floating_point())
    throw Error(KINORA_ERROR_INVALID,
                "model/patch-discriminator: video must be a floating-point tensor [B, 3, T, H, W], found " +
                    c10::str(x.scalar_type(), x.sizes()));
  const int64_t smallest = (int64_t{1} << (blocks() - 2)) * 3;
  if (std::min(x.size(3), x.size(4)) < smallest)
    throw Error(KINORA_ERROR_INVALID, "model/patch-discriminator: a video of " + std::to_string(x.size(4)) +
                                          " x " + std::to_string(x.size(3)) + " pixels; " +
                                          std::to_string(blocks() - 2) + " layers need " +
                                          std::to_string(smallest) + " or more; use fewer");
  for (int64_t i = 0; i < blocks(); ++i)
    x = ctx.block(i, {x}, {}, 1,
                  [ctx, layer = layers_[static_cast<size_t>(i)]](const std::vector<Tensor>& t) {
                    return std::vector{layer(ctx, t[0])};
                  })[0];
  return {x};
}

KINORA_COMPONENT(PatchDiscriminator)
KINORA_PLUGIN(PatchDiscriminator)

}  // namespace kinora::patch_discriminator
