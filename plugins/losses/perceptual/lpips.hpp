// loss/lpips: the learned perceptual distance of two images. Zhang et al. 2018 (arXiv 1801.03924), equation
// 1, version 0.1 of the authors' lpips package: activations of a trained network, each pixel's vector scaled
// to length one, squared differences weighted by channel, summed over channels and layers, averaged over
// pixels.
#pragma once
#include <map>
#include <string>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/loss.hpp"
#include "plugins/losses/perceptual/trunk.hpp"

namespace kinora::perceptual {

class Lpips final : public Loss<at::Tensor> {
 public:
  struct Options {
    std::string net = "vgg", weights;
  };
  static void describe(Describe<Options>& d);
  explicit Lpips(const Options& o);

  // This loss has no noise.
  at::Tensor noisy(const at::Tensor&, const at::Tensor&, const at::Tensor&) override;
  Input input(const at::Tensor&, const at::Tensor&) override;
  at::Tensor estimate(const at::Tensor&, const at::Tensor&, const at::Tensor&) override;
  std::vector<at::Tensor> evaluate(const Named<at::Tensor>& in) override;

 private:
  using Weights = std::map<std::string, at::Tensor>;
  // The weights in x's dtype and device, made once for each.
  const Weights& like(const at::Tensor& x);

  const Trunk& trunk_;
  Weights weights_;  // as in the file
  std::map<std::string, Weights> converted_;
};

}  // namespace kinora::perceptual
