// A transformer block: self-attention, cross-attention to text, MLP; each between AdaLN-LoRA's scale, shift
// and gate.
//
// B batch, S local tokens, R rows of conditioning (1, one per frame or one per token), L text tokens, D
// width, d head size. For a packed row of n videos B is 1, R counts all their frames or tokens, L all their
// tokens of text.
#pragma once
#include <string>
#include <vector>

#include "kinora/block_inputs.hpp"
#include "kinora/layers.hpp"
#include "kinora/rope.hpp"
#include "plugins/models/cosmos/config.hpp"

namespace kinora::cosmos {

struct Shared : BlockInputs<Shared> {
  at::Tensor embedding;   // [B, R, D] of the noise level and the signals
  at::Tensor modulation;  // [B, R, 3D] added to every block's own
  at::Tensor text;        // [B, L, text_size]
  Turns turns;            // of the tokens between COLUMN and ROW linears
  at::Tensor text_mask;   // [B, L] bool; undefined: all
  at::Tensor text_table;  // for a packed row, instead of the mask: the sample of each token and whether it is
                          // visible
  at::Tensor position;    // [1 or B, S, D] added to a block's input; undefined: none
  at::Tensor row;         // the row, of R, of each token of the stream; undefined: R is 1

  std::vector<at::Tensor*> all() {
    return {&embedding,  &modulation, &text,       &turns.cos, &turns.sin,
            &turns.rate, &text_mask,  &text_table, &position,  &row};
  }
};

// The `parts` shifts, scales and gates [B, S or 1, D] of a block or of the head: those of AdaLn, plus the
// modulation of all.
class Modulation {
 public:
  Modulation(const Declare& declare, const Config& c, int64_t parts)
      : own_(declare, {"linear_1", "linear_2"}, c.width(), c.adaln_lora, parts), size_(parts * c.width()) {}
  std::vector<at::Tensor> operator()(const Ctx& ctx, const Shared& s) const {
    return own_.split(at_rows(own_(ctx, at::silu(s.embedding)) + s.modulation.narrow(2, 0, size_), s.row));
  }

 private:
  AdaLn own_;
  int64_t size_;
};

class Attend {
 public:
  // kv_width: channels of the keys' and values' input.
  Attend(const Declare& declare, const Config& c, int64_t kv_width);
  // x [B, S, D]: self-attention, with positions.
  at::Tensor self(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Turns& turns) const;
  at::Tensor cross(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Shared& s) const;

 private:
  // RMSNorm of each head, then the rotation if there is one.
  at::Tensor head_norm(const Ctx& ctx, const at::Tensor& x, kinora_param w, const Turns& turns) const;

  Heads heads_;
  Linear q_, k_, v_, out_;
  kinora_param norm_q_, norm_k_;
  double epsilon_;
  Rope rope_;
};

class Block {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint.
  Block(const Ctx& ctx, const Config& c, int64_t block)
      : Block(Declare(ctx, "transformer_blocks." + std::to_string(block - 1) + ".", block), c) {}
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, at::Tensor x, const Shared& s) const;

 private:
  Block(const Declare& declare, const Config& c);

  Modulation norm1_, norm2_, norm3_;
  Attend self_, cross_;
  FeedForward mlp_;
};

}  // namespace kinora::cosmos
