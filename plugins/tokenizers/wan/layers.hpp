// The layers of the Wan VAE, all causal in time. Tensors between layers are [B, T, H, W, C],
// contiguous: the channels-last form in which convolutions are fastest on a CPU, and a batch of NHWC images
// for the spatial ones.
//
// A clip passes in pieces, the first of one frame; a layer keeps the state that its next piece needs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kinora/layers.hpp"

namespace kinora::wan {

// State of the layers between two pieces: one slot each, in the order of the calls.
struct History {
  bool first = true;  // no piece has been processed yet
  size_t next = 0;
  std::vector<at::Tensor> slots;
};

// One piece in its pass through the network.
struct Pass {
  Ctx ctx;
  History* history;
  bool first() const { return history->first; }
  // State of the current layer; undefined in the first piece.
  at::Tensor past() const { return first() ? at::Tensor() : history->slots[history->next]; }
  // Ends the current layer.
  void keep(at::Tensor t) const {
    if (history->next == history->slots.size()) history->slots.emplace_back();
    history->slots[history->next++] = std::move(t);
  }
  at::Tensor value(kinora_param p, const at::Tensor& like) const { return value_as(ctx, p, like); }
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual at::Tensor operator()(const Pass& run, const at::Tensor& x) const = 0;
  virtual int64_t slots() const { return 0; }
};
using Layers = std::vector<std::unique_ptr<Layer>>;

// A weight and a bias; the weight's shape is [out, in, kernel...].
struct Kernel {
  Kernel(const Declare& at, const std::string& name, int64_t out, int64_t in, std::vector<int64_t> kernel);
  // 1x1 or 1x1x1
  at::Tensor pointwise(const Pass& run, const at::Tensor& x) const;
  kinora_param weight, bias;
};

// kernel: 3 x space x space; padded with zeros before the clip. Keeps the last two frames of its input.
class CausalConv final : public Layer {
 public:
  CausalConv(const Declare& at, const std::string& name, int64_t in, int64_t out, int64_t space = 3);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const override;
  int64_t slots() const override { return 1; }

 private:
  Kernel kernel_;
  int64_t padding_;
};

// x / |x| sqrt(C) gamma over the channels (RMSNorm without an epsilon in the root); followed by silu if
// requested.
class RmsNorm {
 public:
  RmsNorm(const Declare& at, const std::string& name, int64_t channels, int64_t dims);
  at::Tensor operator()(const Pass& run, const at::Tensor& x, bool silu) const;

 private:
  kinora_param gamma_;
};

class ResidualBlock final : public Layer {
 public:
  ResidualBlock(const Declare& at, const std::string& name, int64_t in, int64_t out);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const override;
  int64_t slots() const override { return 2; }

 private:
  RmsNorm norm1_, norm2_;
  CausalConv conv1_, conv2_;
  std::vector<Kernel> shortcut_;  // one if the number of channels changes
};

// One head over the pixels of a frame.
class AttentionBlock final : public Layer {
 public:
  AttentionBlock(const Declare& at, const std::string& name, int64_t channels);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const override;

 private:
  RmsNorm norm_;
  Kernel qkv_, proj_;
};

// Halves rows and columns by a strided convolution; with `time` also the frames after the first.
class Downsample final : public Layer {
 public:
  Downsample(const Declare& at, const std::string& name, int64_t channels, bool time);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const override;
  int64_t slots() const override { return static_cast<int64_t>(time_.size()); }

 private:
  Kernel space_;
  std::vector<Kernel> time_;
};

// Doubles rows and columns by repetition and a convolution; with `time` first the frames after the first.
class Upsample final : public Layer {
 public:
  Upsample(const Declare& at, const std::string& name, int64_t in, int64_t out, bool time);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const override;
  int64_t slots() const override { return static_cast<int64_t>(time_.size()); }

 private:
  at::Tensor in_space(const Pass& run, const at::Tensor& x) const;
  Kernel space_;
  std::vector<CausalConv> time_;
};

// Shortcuts of the residual family. Down: cells of time x space x space pixels, all their channels averaged
// in groups to `out`. Up: channels repeated and arranged as such cells; the first frame makes one.
at::Tensor average_down(const at::Tensor& x, int64_t out, int64_t time, int64_t space);
at::Tensor repeat_up(const at::Tensor& x, int64_t out, int64_t time, int64_t space, bool first);

}  // namespace kinora::wan
