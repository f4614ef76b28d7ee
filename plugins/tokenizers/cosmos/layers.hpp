// The layers of the Cosmos tokenizer. All are causal in time: frame t depends only on frames 0..t.
//
// Tensors between layers are [B, T, H, W, C], contiguous: the same memory is an NHWC image batch [B * T, C,
// H, W] for the kernels that work in space and an NHWC image [B, C, T, H * W] for those that work in time. So
// the factorised convolutions (1,3,3) and (3,1,1) both run as 2D convolutions, without a copy between them.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "kinora/layers.hpp"

namespace kinora::cosmos {

// State of a stream between consecutive pieces: one slot per causal layer, in the order of
// the calls.
struct History {
  bool first = true;  // no piece has been processed yet
  size_t next = 0;
  std::deque<at::Tensor> slots;
  at::Tensor& slot() {
    if (next == slots.size()) slots.emplace_back();
    return slots[next++];
  }
};

// Declares parameters; image: the layers are those of the image tokenizers, which process every frame on its
// own.
struct Scope {
  Declare declare;
  bool image = false;
  Scope in(int64_t block) const { return {Declare(declare.context(), "", block), image}; }
};

// One pass through the network. history: null for a whole clip.
struct Pass {
  Ctx ctx;
  History* history = nullptr;
  bool first() const { return !history || history->first; }
  at::Tensor value(kinora_param p, const at::Tensor& like) const { return value_as(ctx, p, like); }
  // layer(x), as block `index` of the context, which may run it again in the backward; a stream's pieces have
  // no backward.
  template <class Layer>
  at::Tensor block(int64_t index, const at::Tensor& x, const Layer& layer) const {
    if (history) return layer(*this, x);
    return ctx.block(index, {x}, {}, 1, [run = *this, &layer](const std::vector<at::Tensor>& in) {
      return std::vector{layer(run, in[0])};
    })[0];
  }
};

// Initial values of a convolution. Zeros end the branches that add to a residual stream, and the decoder: a
// fresh network is nearly linear and therefore learns faster (15.0 dB against 14.3 after 150 clips of a test
// video). `present`: a convolution in time initially returns the current frame.
enum class Start { random, zeros, present };

// A convolution with bias; its kernel is (time, space, space), for images (space, space).
class Conv {
 public:
  Conv(const Scope& at, const std::string& name, int64_t in, int64_t out, int64_t time, int64_t space,
       Start start = Start::random);
  at::Tensor in_space(const Pass& run, const at::Tensor& x, int64_t stride, int64_t padding) const;
  // No padding: T -> (T - time) / stride + 1 frames.
  at::Tensor in_time(const Pass& run, const at::Tensor& x, int64_t stride) const;
  at::Tensor pointwise(const Pass& run, const at::Tensor& x) const;
  at::ScalarType dtype(const Pass& run) const { return run.ctx.value(weight_).scalar_type(); }

 private:
  kinora_param weight_, bias_;
};

// x with frames in front: the last ones of the previous piece, or `copies` of the first frame. Keeps the last
// `keep`.
at::Tensor extend(const Pass& run, const at::Tensor& x, int64_t copies, int64_t keep);

// Normalises each frame over its pixels and channels, an image in 32 groups of channels; affine per channel.
class FrameNorm {
 public:
  FrameNorm(const Scope& at, const std::string& name, int64_t channels);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  int64_t groups_;
  kinora_param weight_, bias_;
};

// 3x3 in space, then 3 in time; for images only the first.
class FactorisedConv {
 public:
  FactorisedConv(const Scope& at, const std::string& name, int64_t in, int64_t out,
                 Start start = Start::present);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  Conv space_;
  std::vector<Conv> time_;
};

class ResnetBlock {
 public:
  ResnetBlock(const Scope& at, const std::string& name, int64_t in, int64_t out);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  FrameNorm norm1_, norm2_;
  FactorisedConv conv1_, conv2_;
  std::vector<Conv> shortcut_;  // one if the number of channels changes
};

// One head over the pixels of a frame, or over a pixel's frames up to its own. Attention over time sees all
// earlier frames: a stream keeps their keys and values.
class Attend {
 public:
  Attend(const Scope& at, const std::string& name, int64_t channels);
  at::Tensor over_space(const Pass& run, const at::Tensor& x) const;
  at::Tensor over_time(const Pass& run, const at::Tensor& x) const;

 private:
  FrameNorm norm_;
  Conv q_, k_, v_, out_;
};

// Strided convolution plus average pooling, in space and then in time (each if requested), then 1x1x1. For
// images only the convolution.
class Downsample {
 public:
  Downsample(const Scope& at, const std::string& name, int64_t channels, bool space, bool time);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  std::vector<Conv> space_, time_, out_;  // out_ is empty for images
};

// Repetition plus a convolution of it, in time and then in space, then 1x1x1. n frames become 2 n - 1. For
// images only the convolution of the repetition.
class Upsample {
 public:
  Upsample(const Scope& at, const std::string& name, int64_t channels, bool space, bool time);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  std::vector<Conv> time_, space_, out_;  // out_ is empty for images
};

}  // namespace kinora::cosmos
