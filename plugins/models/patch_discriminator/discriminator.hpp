// model/patch-discriminator: classifies each patch of space and time as real or reconstructed video.
// The PatchGAN of Isola et al. 2017 (arXiv 1611.07004, appendix 6.1.2) with three-dimensional convolutions,
// as used for tuning video tokenizers. Batch norm is not used, since its statistics depend on how
// samples are grouped; instead group norm, or the spectral norm of Miyato et al. 2018 (arXiv 1802.05957).
#pragma once
#include <string>
#include <vector>

#include "kinora/layers.hpp"
#include "kinora/model.hpp"

namespace kinora::patch_discriminator {

// weight / its largest singular value over [out, the rest]; differentiable through both. There is no power iteration
// with state: the value is exact, so the result depends only on the weight.
at::Tensor spectral(const at::Tensor& weight);

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

}  // namespace kinora::patch_discriminator
