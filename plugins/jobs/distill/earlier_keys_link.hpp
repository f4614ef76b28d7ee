// Lets a forward with gradients see keys and values of frames before its own, as constants: those that a rollout on the
// cache saw before the same frames (long_rollouts.hpp).
#pragma once
#include <map>
#include <string>

#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

// Later chunks of the frames see of earlier ones no more than the first chunk does, so its keys are enough; the run's
// rule hides from each chunk what its window has passed. They are copies: the cache may evict them, and a block that
// runs again in the backward reads the same.
class EarlierKeysLink final : public kinora::Link<at::Tensor> {
 public:
  EarlierKeysLink() : Link(kLevel) { skip_inherited<EarlierKeysLink>(); }
  // From now on read-only passes of a session note what they see of tokens before their own, or they note nothing.
  void note(bool on) { notes_ = on; }
  void clear();
  // Bytes of the keys and values.
  int64_t bytes() const;
  // q, k, v [B, S, heads, d], with `how.k_table` of k's tokens.
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;

 private:
  // Below the cache, where keys are those of all tokens for local heads, with the stored ones before the forward's own.
  static constexpr uint32_t kLevel = KINORA_LEVEL_CACHE + 50;
  struct Earlier {
    at::Tensor k, v, table;  // [B, tokens, heads, d], int64 [1 or B, tokens, columns]
  };
  void keep(const at::Tensor& k, const at::Tensor& v, const kinora_attention& how);

  bool notes_ = false;
  std::map<std::string, Earlier> earlier_;  // by attention
  // The last tables, which many attentions have in common.
  struct Table {
    at::Tensor from, made;
  } noted_, joined_;
};

}  // namespace kinora::core
