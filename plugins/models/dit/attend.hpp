// Attention with an RMSNorm of each head's queries and keys, and optionally fewer key heads than query heads.
//
// B batch, S local tokens, L text tokens, D width, G groups (heads of keys), r query heads per group, d head
// size. The fused projections keep a group together, as Megatron's do: a group's r query heads, its key, its
// value; so splitting by whole groups splits the attention.
#pragma once
#include <string>

#include "kinora/rope.hpp"
#include "plugins/models/dit/config.hpp"
#include "plugins/models/dit/declare.hpp"

namespace kinora::dit {

// Common to both after their projections.
class Attend {
 protected:
  Attend(const Declare& declare, std::string name, int64_t block, const Config& c);
  // q, k, v [B, S or L, G, r or 1, d] after norms -> [B, S, D]
  at::Tensor attend(const Ctx& ctx, kinora_seq seq, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, Attention<at::Tensor> how) const;
  // The weight of a norm of heads, in x's dtype.
  at::Tensor weight(const Ctx& ctx, kinora_param w, const at::Tensor& x) const;

  int64_t group_, head_size_;  // r, d
  double epsilon_;
  kinora_param norm_q_, norm_k_;

 private:
  kinora_param out_;
  std::string name_;
  int64_t block_;
};

class SelfAttend : Attend {
 public:
  SelfAttend(const Declare& declare, const std::string& name, int64_t block, const Config& c);
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Turns& turns,
                        Over over = Over::all) const;

 private:
  kinora_param qkv_;
};

class CrossAttend : Attend {
 public:
  CrossAttend(const Declare& declare, const std::string& name, int64_t block, const Config& c);
  // text [B, L, text_size]; mask [B, L] bool, undefined: all; table [1, L, ...], for a packed row.
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const at::Tensor& text,
                        const at::Tensor& mask, const at::Tensor& table) const;

 private:
  kinora_param q_, kv_;
};

class Mlp {
 public:
  Mlp(const Declare& declare, const Config& c);
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, const at::Tensor& x) const;

 private:
  kinora_param up_, down_;
};

}  // namespace kinora::dit
