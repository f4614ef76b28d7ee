// A layer: attention to earlier codes, in some layers to text, and a SwiGLU MLP (Shazeer 2020, arXiv
// 2002.05202), each after an RMS norm (Llama, arXiv 2302.13971).
//
// B batch, S local tokens, L text tokens, D width, d head size.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "plugins/models/ar/config.hpp"
#include "plugins/models/ar/rope.hpp"

namespace kinora::ar {

using Ctx = Context<at::Tensor>;

// Names a parameter and declares how it may be split.
class Declare {
 public:
  Declare(const Ctx& ctx, std::string prefix, int64_t block)
      : ctx_(ctx), prefix_(std::move(prefix)), block_(block) {}
  Declare in(const std::string& name) const { return {ctx_, prefix_ + name + ".", block_}; }
  // prefix.name.weight. quantum: the head size where heads are split.
  kinora_param weight(const std::string& name, std::vector<int64_t> shape, Init init, Role role = Role::whole,
                      int64_t quantum = 1) const;

 private:
  Ctx ctx_;
  std::string prefix_;
  int64_t block_;
};

// x / rms(x) * weight over the last dimension, statistics in at least float32.
at::Tensor rms_norm(const Ctx& ctx, const at::Tensor& x, kinora_param weight, double eps);

class Attend {
 public:
  // kv_dim: channels of the keys' and values' input.
  Attend(const Declare& declare, std::string name, int64_t block, const Config& c, int64_t kv_dim);
  // x [B, S, D]: self-attention, with positions.
  at::Tensor self(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const Turns& turns) const;
  at::Tensor cross(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, const at::Tensor& text,
                   const at::Tensor& mask) const;

 private:
  at::Tensor heads(const Ctx& ctx, kinora_seq seq, const at::Tensor& x, kinora_param by,
                   kinora_param norm) const;
  at::Tensor finish(const Ctx& ctx, kinora_seq seq, kinora_seq kv, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const at::Tensor& mask) const;

  kinora_param q_, k_, v_, out_, norm_q_ = 0, norm_k_ = 0;
  std::string name_;
  int64_t block_, head_dim_;
  double eps_;
};

class Layer {
 public:
  // block: its index for the context; layer block - 1 of the checkpoint.
  Layer(const Ctx& ctx, const Config& c, int64_t block) : Layer(Declare(ctx, name(block), block), c, block) {}
  bool crosses() const { return cross_.has_value(); }
  // text: undefined if absent; text_mask: undefined if all tokens are visible.
  at::Tensor operator()(const Ctx& ctx, kinora_seq seq, at::Tensor x, const Turns& turns,
                        const at::Tensor& text, const at::Tensor& text_mask) const;

 private:
  Layer(const Declare& declare, const Config& c, int64_t block);
  static std::string name(int64_t block) { return "layers." + std::to_string(block - 1) + "."; }

  double eps_;
  kinora_param attention_norm_, ffn_norm_, cross_norm_ = 0, gate_, up_, down_;
  Attend self_;
  std::optional<Attend> cross_;
};

}  // namespace kinora::ar
