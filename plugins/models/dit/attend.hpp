// Attention with an RMSNorm of each head's queries and keys, and optionally fewer key heads than query heads.
//
// B batch, S local tokens, L text tokens, D width, G groups (heads of keys), r query heads per group, d head
// size. The fused projections keep a group together, as Megatron's do: a group's r query heads, its key, its
// value; so splitting by whole groups splits the attention.
#pragma once
#include "kinora/layers.hpp"
#include "kinora/rope.hpp"
#include "plugins/models/dit/config.hpp"

namespace kinora::dit {

// Common to both after their projections.
class Attend {
 protected:
  Attend(const Declare& declare, const Config& c);
  // q, k, v [B, S or L, G, r or 1, d] after norms -> [B, S, D]
  at::Tensor attend(const Ctx& ctx, kinora_seq seq, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const Attention<at::Tensor>& how) const;

  Heads heads_;
  int64_t group_;  // r
  double epsilon_;
  kinora_param norm_q_, norm_k_;

 private:
  Linear out_;
};

class SelfAttend : Attend {
 public:
  SelfAttend(const Declare& declare, const Config& c);
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Turns& turns,
                        Over over = Over::all) const;

 private:
  Linear qkv_;
};

class CrossAttend : Attend {
 public:
  CrossAttend(const Declare& declare, const Config& c);
  // text [B, L, text_size]; mask [B, L] bool, undefined: all; table [1, L, ...], for a packed row.
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const at::Tensor& text,
                        const at::Tensor& mask, const at::Tensor& table) const;

 private:
  Linear q_, kv_;
};

// With GELU between.
FeedForward mlp(const Declare& declare, const Config& c);

}  // namespace kinora::dit
