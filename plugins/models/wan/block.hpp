// A transformer block of Wan: self-attention, cross-attention to text (and image), MLP. The noise level
// scales, shifts and gates the first and the last; cross-attention is unconditioned.
//
// B batch, S local tokens, R rows of conditioning (1, one per frame or one per token), L text and Li image
// tokens, D width, d head size. For a packed row of n videos B is 1, R counts all their frames or tokens, L
// and Li all their tokens of text and image.
#pragma once
#include <bitset>
#include <string>
#include <vector>

#include "plugins/models/wan/config.hpp"
#include "plugins/models/wan/layers.hpp"

namespace kinora::wan {

// Tensors that all blocks share, made outside them. A block receives them through its inputs (a tensor captured by a block
// loses its gradient when the block is run again).
struct Shared {
  at::Tensor modulation;   // [B, R, 6 D]
  at::Tensor text;         // [B, L, D]
  Turns turns;             // of the tokens between COLUMN and ROW linears
  at::Tensor text_mask;    // [B, L] bool; undefined: all
  at::Tensor image;        // [B, Li, D]; undefined: none
  at::Tensor text_table;   // for a packed row, instead of the mask: the sample of each token and whether it is visible
  at::Tensor image_table;  // for a packed row: the sample of each token
  at::Tensor row;          // the row, of R, of each token of the stream; undefined: R is 1

  // Which of them are present.
  using Has = std::bitset<9>;
  Has has() const;
  std::vector<at::Tensor> pack() const;
  static Shared unpack(const std::vector<at::Tensor>& in, size_t from, Has has);

 private:
  template <class Self>
  static auto all(Self& s) {
    return std::array{&s.modulation, &s.text,       &s.turns.cos,   &s.turns.sin, &s.text_mask,
                      &s.image,      &s.text_table, &s.image_table, &s.row};
  }
};

class Attend {
 public:
  // block: its index for the context. cross: attention to text, and to an image if the model has one.
  Attend(const Declare& declare, std::string name, int64_t block, const Config& c, bool cross);
  // x [B, S, D]: self-attention, with positions.
  at::Tensor self(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Turns& turns) const;
  at::Tensor cross(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Shared& s) const;

 private:
  // [B, any, heads, d], normalised if `norm` is not 0.
  at::Tensor heads(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Linear& by,
                   kinora_param norm) const;
  at::Tensor attend(const Ctx& ctx, const char* suffix, kinora_seq seq, const at::Tensor& q,
                    const at::Tensor& k, const at::Tensor& v, Attention<at::Tensor> how) const;

  Linear q_, k_, v_, out_, image_k_, image_v_;
  kinora_param norm_q_ = 0, norm_k_ = 0, norm_image_k_ = 0;
  std::string name_;
  int64_t block_, width_, head_dim_;
  double eps_;
};

class Block {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint.
  Block(const Ctx& ctx, const Config& c, int64_t block) : Block(Declare(ctx, name(block), block), c, block) {}
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, at::Tensor x, const Shared& s) const;

 private:
  Block(const Declare& declare, const Config& c, int64_t block);
  static std::string name(int64_t block) { return "blocks." + std::to_string(block - 1) + "."; }

  kinora_param table_;
  Attend self_, cross_;
  Norm norm2_;  // before cross-attention, if present
  Linear up_, down_;
  double eps_;
};

// norm(x) * (1 + scale) + shift, in x's dtype.
at::Tensor modulated(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale, double eps);

}  // namespace kinora::wan
