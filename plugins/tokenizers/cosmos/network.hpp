// The Cosmos tokenizer's patches of pixels, and its encoder and decoder over [B, T, H, W, C]; parameter names
// are diffusers'.
#pragma once
#include <string>
#include <vector>

#include <ATen/ATen.h>

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

// Patches [B, t, h, w, patch_channels] -> [B, T, H, W, latent_channels] of the latent's size. block: as for
// Stack.
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

// The other direction: [B, T, H, W, latent_channels] -> patches. block: as for Stack.
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

// Converts patches of p x p x p pixels (of an image: p x p) to channels and back: a Haar wavelet of log2(p)
// levels, or a plain rearrangement.
//
// The Haar transform of a patch is an orthogonal matrix (up to its scale), so both directions are one matrix
// product.
class Patcher {
 public:
  // size: a power of two. type: "haar" or "rearrange". image: a patch is one frame long.
  Patcher(int64_t size, const std::string& type, bool image = false);

  int64_t frames() const { return time_; }
  // Number of channels of a patch of an RGB video.
  int64_t channels() const { return 3 * pixels(); }
  // video [B, C, frames * t, p * h, p * w] -> [B, t, h, w, C * pixels]
  at::Tensor patch(const at::Tensor& video) const;
  // [B, t, h, w, C * pixels] -> [B, C, frames * t, p * h, p * w]
  at::Tensor unpatch(const at::Tensor& x) const;

 private:
  at::Tensor signs(const at::Tensor& like) const;  // [bands, pixels], +1 and -1
  int64_t pixels() const { return time_ * p_ * p_; }

  int64_t p_, time_;
  int64_t levels_;  // levels of the wavelet; 0: rearrange
  bool image_;
};

}  // namespace kinora::cosmos
