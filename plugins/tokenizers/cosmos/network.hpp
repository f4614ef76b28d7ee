// Encoder and decoder of the Cosmos tokenizer over [B, T, H, W, C]; parameter names are diffusers'.
#pragma once
#include <string>
#include <vector>

#include "plugins/tokenizers/cosmos/config.hpp"
#include "plugins/tokenizers/cosmos/layers.hpp"

namespace kinora::cosmos {

// Residual blocks, each followed by attention over space and over time (for images: over space) at the
// configured resolutions.
class Stack {
 public:
  // block: the context's next free number, which is incremented.
  Stack(const Scope& outside, const std::string& name, int64_t in, int64_t out, int64_t n, bool attend,
        int64_t& block);
  at::Tensor operator()(const Pass& run, at::Tensor x) const;

 private:
  struct Layer {
    ResnetBlock resnet;
    std::vector<Attend> attend;  // over space, then over time; or none
    at::Tensor operator()(const Pass& run, const at::Tensor& x) const;
  };
  int64_t block_;  // number of the first layer
  std::vector<Layer> layers_;
};

// Residual block, attention over space, attention over time (not for images), residual block.
class Middle {
 public:
  Middle(const Scope& at, const std::string& name, int64_t channels);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  ResnetBlock first_, last_;
  std::vector<Attend> attend_;
};

class Encoder {
 public:
  Encoder(const Scope& outside, const Config& c, int64_t patch_channels, int64_t& block);
  at::Tensor operator()(const Pass& run, const at::Tensor& patches) const;

 private:
  std::vector<Level> levels_;
  FactorisedConv in_;
  std::vector<Stack> stacks_;
  std::vector<Downsample> down_;
  int64_t middle_block_;
  Middle middle_;
  FrameNorm norm_;
  FactorisedConv out_;
};

class Decoder {
 public:
  Decoder(const Scope& outside, const Config& c, int64_t patch_channels, int64_t& block);
  at::Tensor operator()(const Pass& run, const at::Tensor& latent) const;

 private:
  std::vector<Level> levels_;
  FactorisedConv in_;
  int64_t middle_block_;
  Middle middle_;
  std::vector<Stack> stacks_;
  std::vector<Upsample> up_;
  FrameNorm norm_;
  FactorisedConv out_;
};

}  // namespace kinora::cosmos
