// Detaches the keys and values of the clean stream of a two-stream forward (teacher forcing). The noisy stream then
// has the gradients of self-forcing, which reads earlier chunks from a cache without gradients (Self-Forcing, Huang et
// al. 2025, arXiv 2506.08009, section 3.2).
#pragma once
#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

// For chains whose forwards with gradients have two streams: in a table of one stream every token is clean. Passes
// without gradients and attention to shared keys (text) are unchanged.
class DetachCleanLink final : public kinora::Link<at::Tensor> {
 public:
  DetachCleanLink() : Link(kLevel) { skip_inherited<DetachCleanLink>(); }
  // q, k, v [B, S, heads, d], with `how.k_table` of k's tokens.
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;

 private:
  // Above the links of context parallelism, so that no rank sends a gradient of clean tokens to another.
  static constexpr uint32_t kLevel = KINORA_LEVEL_CONTEXT - 50;
};

}  // namespace kinora::core
