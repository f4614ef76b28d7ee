// Encoder and decoder of the Wan VAE over [B, T, H, W, C], one piece of the clip at a time; parameter names
// are diffusers'.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "plugins/tokenizers/wan/config.hpp"
#include "plugins/tokenizers/wan/layers.hpp"

namespace kinora::wan {

// Layers that form one block of the context, with or without a shortcut around all of them.
struct Stage {
  int64_t block = 0;
  Layers layers;
  std::function<at::Tensor(const at::Tensor& x, bool first)> shortcut;

  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  at::Tensor inside(const Pass& run, const at::Tensor& x) const;
};

// Counts the blocks of a context as they are made, in the order in which they run.
struct Declaring {
  Ctx ctx;
  int64_t& blocks;
  Declare block() const { return {ctx, "", blocks++}; }
};

// One latent frame at a time: the clip's first frame, then time() frames -> moments [B, 1, h, w, 2 z].
class Encoder {
 public:
  Encoder(const Declaring& d, const Config& c);
  at::Tensor operator()(const Pass& run, const at::Tensor& patches) const;

 private:
  CausalConv in_;
  std::vector<Stage> stages_;  // the middle is the last
  RmsNorm norm_;
  CausalConv out_;
  Kernel quant_;
};

// latent [B, 1, h, w, z] -> the frames of one latent frame.
class Decoder {
 public:
  Decoder(const Declaring& d, const Config& c);
  at::Tensor operator()(const Pass& run, const at::Tensor& latent) const;

 private:
  Kernel post_quant_;
  CausalConv in_;
  std::vector<Stage> stages_;  // the middle is the first
  RmsNorm norm_;
  CausalConv out_;
};

}  // namespace kinora::wan
