// A layer: attention to earlier codes, in some layers to text, and a SwiGLU MLP (Shazeer 2020, arXiv
// 2002.05202), each after an RMS norm (Llama, arXiv 2302.13971).
//
// B batch, S local tokens, L text tokens, D width, d head size.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/layers.hpp"
#include "kinora/rope.hpp"
#include "plugins/models/ar/config.hpp"

namespace kinora::ar {

// The size of a video's frames in codes; 0: 1D.
struct Grid {
  int64_t rows = 0, cols = 0;
};

// Rotary positions of codes. Channels i and i + d / 2 of a head are a pair; the pairs are divided among
// the axes: time d - 4 (d / 6) channels, rows and columns 2 (d / 6) each; pair j of an axis with n channels
// rotates by position * theta^(-2j / n). 1D: one axis.
//
// index: int64 [1 or B, S], position of each token in the sequence -> cosines and sines [1 or B, S, 1, d /
// 2], float64. 3D: position i has the code before it, i - 1, and rotates by that code's
// frame, row and column; position 0, the beginning, is not rotated, like the first code.
Turns rope_turns(const at::Tensor& index, int64_t head_dim, double theta, const Grid& grid);

// x / rms(x) * weight over the last dimension, statistics in at least float32; rounded to x's dtype before
// the weight, as Llama does.
at::Tensor llama_norm(const Ctx& ctx, const at::Tensor& x, kinora_param weight, double eps);

class Attend {
 public:
  // kv_dim: channels of the keys' and values' input.
  Attend(const Declare& declare, const Config& c, int64_t kv_dim);
  // x [B, S, D]: self-attention, with positions.
  at::Tensor self(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Turns& turns,
                  const Grid& grid) const;
  at::Tensor cross(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const at::Tensor& text,
                   const at::Tensor& mask) const;

 private:
  at::Tensor heads(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Linear& by,
                   kinora_param norm) const;
  kinora_rope rope_of(const Grid& grid) const;

  Heads heads_;
  Rope rope_;
  Linear q_, k_, v_, out_;
  kinora_param norm_q_ = 0, norm_k_ = 0;
  double eps_;
};

class Layer {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint.
  Layer(const Ctx& ctx, const Config& c, int64_t block)
      : Layer(Declare(ctx, "layers." + std::to_string(block - 1) + ".", block), c, block) {}
  bool crosses() const { return cross_.has_value(); }
  // text: undefined if absent; text_mask: undefined if all tokens are visible.
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, at::Tensor x, const Turns& turns, const Grid& grid,
                        const at::Tensor& text, const at::Tensor& text_mask) const;

 private:
  Layer(const Declare& declare, const Config& c, int64_t block);

  double eps_;
  kinora_param attention_norm_, ffn_norm_, cross_norm_ = 0;
  Linear gate_, up_, down_;
  Attend self_;
  std::optional<Attend> cross_;
};

}  // namespace kinora::ar
