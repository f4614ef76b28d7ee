// The layers of the Cosmos tokenizer. Every one is causal in time: frame t depends on frames 0..t only.
//
// Tensors between layers are [B, T, H, W, C], contiguous: the same memory is an NHWC image batch [B * T, C,
// H, W] for the kernels that work in space and an NHWC image [B, C, T, H * W] for those that work in time. So
// the factorised convolutions (1,3,3) and (3,1,1) both run as 2D convolutions, without a copy between them.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/context.hpp"

namespace kinora::cosmos {

using Ctx = Context<at::Tensor>;

// What a stream of consecutive pieces carries from one to the next: a slot a causal layer, in the order of
// the calls.
struct History {
  bool first = true;  // no piece has been through yet
  size_t next = 0;
  std::deque<at::Tensor> slots;
  at::Tensor& slot() {
    if (next == slots.size()) slots.emplace_back();
    return slots[next++];
  }
};

// Where parameters are declared: the context, the block that reads them (-1: none), and whether the layers
// are those of the image tokenizers, which look at every frame by itself.
struct Scope {
  Ctx ctx;
  bool image = false;
  int64_t block = -1;
  Scope in(int64_t b) const { return {ctx, image, b}; }
};

// One pass through the network. history: null for a whole clip.
struct Pass {
  Ctx ctx;
  History* history = nullptr;
  bool first() const { return !history || history->first; }
  at::Tensor value(kinora_param p, const at::Tensor& like) const {
    return ctx.value(p).to(like.scalar_type());
  }
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

// How a convolution's numbers begin. Zeros end the branches that add to a residual stream, and the decoder: a
// fresh network is nearly linear and learns faster for it (15.0 dB against 14.3 after 150 clips of a test
// film). `present`: a convolution in time begins by handing on the present frame.
enum class Start { random, zeros, present };

// A convolution with bias; its kernel is (time, space, space), an image's (space, space).
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

// x with frames in front: the last ones of the piece before, or `copies` of the first frame. Keeps the last
// `keep`.
at::Tensor extend(const Pass& run, const at::Tensor& x, int64_t copies, int64_t keep);

// Normalises each frame over its pixels and channels, an image in 32 groups of channels; affine by channel.
class FrameNorm {
 public:
  FrameNorm(const Scope& at, const std::string& name, int64_t channels);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  int64_t groups_;
  kinora_param weight_, bias_;
};

// 3x3 in space, then 3 in time; of an image the first only.
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
// frames so far: a stream keeps their keys and values.
class Attend {
 public:
  Attend(const Scope& at, const std::string& name, int64_t channels);
  at::Tensor over_space(const Pass& run, const at::Tensor& x) const;
  at::Tensor over_time(const Pass& run, const at::Tensor& x) const;

 private:
  FrameNorm norm_;
  Conv q_, k_, v_, out_;
};

// Strided convolution plus average pooling, in space and then in time (each where asked for), then 1x1x1. An
// image's: the convolution alone.
class Downsample {
 public:
  Downsample(const Scope& at, const std::string& name, int64_t channels, bool space, bool time);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  std::vector<Conv> space_, time_, out_;  // out_ is empty in an image's
};

// Repetition plus a convolution of it, in time and then in space, then 1x1x1. n frames become 2 n - 1. An
// image's: the convolution of the repetition alone.
class Upsample {
 public:
  Upsample(const Scope& at, const std::string& name, int64_t channels, bool space, bool time);
  at::Tensor operator()(const Pass& run, const at::Tensor& x) const;

 private:
  std::vector<Conv> time_, space_, out_;  // out_ is empty in an image's
};

}  // namespace kinora::cosmos
