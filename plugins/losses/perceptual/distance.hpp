// The learned perceptual distance of two images, behind loss/lpips and score/lpips. Zhang et al. 2018 (arXiv
// 1801.03924), equation 1, version 0.1 of the authors' lpips package: activations of a trained network, each
// pixel's vector scaled to length one, squared differences weighted by channel, summed over channels and
// layers, averaged over pixels.
#pragma once
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "kinora/options.hpp"
#include "kinora/run.hpp"
#include "plugins/losses/perceptual/trunk.hpp"

namespace kinora::perceptual {

struct LpipsOptions {
  std::string net = "vgg", weights;
};

// The options, and the two videos that are compared.
template <class Options>
void describe_lpips(Describe<Options>& d) {
  d.option("net", &Options::net)
      .choices({"vgg", "alex", "squeeze"})
      .help("network: VGG16, AlexNet or SqueezeNet 1.1");
  d.option("weights", &Options::weights)
      .path()
      .required()
      .help("safetensors of the lpips package's state_dict(): net.slice1.0.weight ... lin4.model.1.weight");
  d.input("prediction", "[B, 3, T, H, W]", "float", "values in [-1, 1]");
  d.input("target", "[B, 3, T, H, W]", "float", "values in [-1, 1]");
}

class LpipsDistance {
 public:
  // Throws kinora::Error if the weights are missing or those of another network.
  explicit LpipsDistance(const LpipsOptions&);
  // Floating-point videos [B, 3, T, H, W] of one shape -> [B], the mean over a sample's frames, in at least
  // float32; with a gradient. Throws Error(KINORA_ERROR_INVALID), and Error(KINORA_ERROR_CANCELLED) between two
  // groups of frames of a run, if there is one, that was asked to stop.
  at::Tensor operator()(const at::Tensor& prediction, const at::Tensor& target, const Run* run = nullptr);

 private:
  using Weights = std::map<std::string, at::Tensor>;
  // The weights in x's dtype and device, made once for each.
  const Weights& like(const at::Tensor& x);

  const Trunk& trunk_;
  Weights weights_;  // as in the file
  std::map<std::string, Weights> converted_;
};

}  // namespace kinora::perceptual
