// A transformer block of Wan: self-attention, cross-attention to text (and image), MLP. The noise level
// scales, shifts and gates the first and the last; cross-attention is unconditioned.
//
// B batch, S local tokens, R rows of conditioning (1, one per frame or one per token), L text and Li image
// tokens, D width, d head size. For a packed row of n videos B is 1, R counts all their frames or tokens, L
// and Li all their tokens of text and image.
#pragma once
#include <string>
#include <vector>

#include "kinora/block_inputs.hpp"
#include "kinora/layers.hpp"
#include "kinora/rope.hpp"
#include "plugins/models/wan/config.hpp"

namespace kinora::wan {

struct Shared : BlockInputs<Shared> {
  at::Tensor modulation;  // [B, R, 6 D]
  at::Tensor text;        // [B, L, D]
  Turns turns;            // of the tokens between COLUMN and ROW linears
  at::Tensor text_mask;   // [B, L] bool; undefined: all
  at::Tensor image;       // [B, Li, D]; undefined: none
  at::Tensor text_table;  // for a packed row, instead of the mask: the sample of each token and whether it is
                          // visible
  at::Tensor image_table;  // for a packed row: the sample of each token
  at::Tensor row;          // the row, of R, of each token of the stream; undefined: R is 1

  std::vector<at::Tensor*> all() {
    return {&modulation, &text, &turns.cos, &turns.sin, &text_mask, &image, &text_table, &image_table, &row};
  }
};

class Attend {
 public:
  // cross: attention to text, and to an image if the model has one.
  Attend(const Declare& declare, const Config& c, bool cross);
  // x [B, S, D]: self-attention, with positions.
  at::Tensor self(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Turns& turns) const;
  at::Tensor cross(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Shared& s) const;

 private:
  // [B, any, heads, d], normalised if `norm` is not 0.
  at::Tensor heads(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Linear& by,
                   kinora_param norm) const;

  Heads heads_, image_heads_;
  Linear q_, k_, v_, out_, image_k_, image_v_;
  kinora_param norm_q_ = 0, norm_k_ = 0, norm_image_k_ = 0;
  Rope rope_;
  int64_t width_;
  double eps_;
};

class Block {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint.
  Block(const Ctx& ctx, const Config& c, int64_t block)
      : Block(Declare(ctx, "blocks." + std::to_string(block - 1) + ".", block), c) {}
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, at::Tensor x, const Shared& s) const;

 private:
  Block(const Declare& declare, const Config& c);

  kinora_param table_;
  Attend self_, cross_;
  LayerNorm norm2_;  // before cross-attention, if present
  FeedForward mlp_;
  double eps_;
};

// norm(x), computed in at least float32.
at::Tensor wide_norm(const Ctx& ctx, const LayerNorm& norm, const at::Tensor& x);
// norm(x) * (1 + scale) + shift, in x's dtype.
at::Tensor modulated(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale, double eps);

}  // namespace kinora::wan
