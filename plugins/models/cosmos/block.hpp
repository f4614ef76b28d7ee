// A transformer block: self-attention, cross-attention to text, MLP; each between AdaLN-LoRA's scale, shift
// and gate.
//
// B batch, S local tokens, R rows of conditioning (1, one per frame or one per token), L text tokens, D width, d
// head size. For a packed row of n videos B is 1, R counts all their frames or tokens, L all their tokens of
// text.
#pragma once
#include <bitset>
#include <string>
#include <vector>

#include "kinora/rope.hpp"
#include "kinora/videos.hpp"
#include "plugins/models/cosmos/config.hpp"

namespace kinora::cosmos {

using Ctx = Context<at::Tensor>;

// Names a parameter of a block and declares how it may be split.
class Declare {
 public:
  Declare(const Ctx& ctx, std::string prefix, int64_t block)
      : ctx_(ctx), prefix_(std::move(prefix)), block_(block) {}
  Declare in(const std::string& name) const { return {ctx_, prefix_ + name + ".", block_}; }
  // prefix.name.weight. quantum: the head size where heads are split.
  kinora_param weight(const std::string& name, std::vector<int64_t> shape, Init init, Role role = Role::whole,
                      int64_t quantum = 1) const;
  // A linear layer [out, in] without bias, Xavier uniform.
  kinora_param linear(const std::string& name, int64_t out, int64_t in, Role role = Role::whole,
                      int64_t quantum = 1) const;

 private:
  Ctx ctx_;
  std::string prefix_;
  int64_t block_;
};

// Tensors that all blocks share, made outside them. A block receives them through its inputs (a tensor captured by a block
// loses its gradient when the block is run again).
struct Shared {
  at::Tensor embedding;   // [B, R, D] of the noise level and the signals
  at::Tensor modulation;  // [B, R, 3D] added to every block's own
  at::Tensor text;        // [B, L, text_size]
  Turns turns;            // of the tokens between COLUMN and ROW linears
  at::Tensor text_mask;   // [B, L] bool; undefined: all
  at::Tensor text_table;  // for a packed row, instead of the mask: the sample of each token and whether it is visible
  at::Tensor position;    // [1 or B, S, D] added to a block's input; undefined: none
  at::Tensor row;         // the row, of R, of each token of the stream; undefined: R is 1

  // Which of them are present.
  using Has = std::bitset<9>;
  Has has() const;
  std::vector<at::Tensor> pack() const;
  static Shared unpack(const std::vector<at::Tensor>& in, size_t from, Has has);

 private:
  template <class Self>
  static auto all(Self& s) {
    return std::array{&s.embedding, &s.modulation, &s.text,     &s.turns.cos, &s.turns.sin,
                      &s.text_mask, &s.text_table, &s.position, &s.row};
  }
};

// parts * D numbers per token from the noise level: linear(linear(silu(embedding))) + modulation, in `parts`
// pieces.
class AdaLn {
 public:
  AdaLn(const Declare& declare, int64_t width, int64_t rank, int64_t parts);
  // row: Shared::row.
  std::vector<at::Tensor> operator()(const Ctx& ctx, const at::Tensor& embedding,
                                     const at::Tensor& modulation, const at::Tensor& row) const;

 private:
  kinora_param down_, up_;
  int64_t width_, parts_;
};

class Attend {
 public:
  // kv_width: channels of the keys' and values' input.
  Attend(const Declare& declare, std::string name, int64_t block, const Config& c, int64_t kv_width);
  // x [B, S, D]: self-attention, with positions.
  at::Tensor self(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Turns& turns) const;
  at::Tensor cross(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Shared& s) const;

 private:
  at::Tensor heads(const Ctx& ctx, const at::Tensor& x, kinora_param w, kinora_seq seq) const;
  // RMSNorm of each head, then the rotation if there is one.
  at::Tensor head_norm(const Ctx& ctx, const at::Tensor& x, kinora_param w, const Turns& turns) const;
  at::Tensor finish(const Ctx& ctx, kinora_seq seq, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, Attention<at::Tensor> how) const;

  kinora_param q_, k_, v_, out_, norm_q_, norm_k_;
  std::string name_;
  int64_t block_, head_size_;
  double epsilon_;
};

class Block {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint.
  Block(const Ctx& ctx, const Config& c, int64_t block) : Block(Declare(ctx, name(block), block), c, block) {}
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, at::Tensor x, const Shared& s) const;

 private:
  Block(const Declare& declare, const Config& c, int64_t block);
  static std::string name(int64_t block) { return "transformer_blocks." + std::to_string(block - 1) + "."; }

  AdaLn norm1_, norm2_, norm3_;
  Attend self_, cross_;
  kinora_param up_, down_;
};

}  // namespace kinora::cosmos
