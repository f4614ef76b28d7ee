// The convolutional networks of LPIPS: features of VGG16, AlexNet and SqueezeNet 1.1 up to
// the layers that it compares. Parameters are named as in the lpips package: net.sliceS.LAYER.weight, where
// LAYER is numbered as in torchvision's `features`.
#pragma once
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace kinora::perceptual {

struct TrunkLayer {
  enum Kind { conv, relu, pool, fire } kind;
  int64_t in = 0, out = 0, kernel = 0, stride = 1,
          padding = 0;  // fire: `out` of each branch, `kernel`: squeezed channels
  bool ceil = false;    // for a pool
};

struct Trunk {
  std::vector<std::vector<TrunkLayer>> slices;
  std::vector<int64_t> channels;  // after each slice
};

// name: "vgg", "alex" or "squeeze".
const Trunk& trunk_of(const std::string& name);

// Names and shapes of the trunk's parameters.
std::map<std::string, std::vector<int64_t>> parameters_of(const Trunk& trunk);

// images [N, 3, H, W] -> the activations after each slice.
std::vector<at::Tensor> features(const Trunk& trunk, const std::map<std::string, at::Tensor>& weights,
                                 const at::Tensor& images);

}  // namespace kinora::perceptual
