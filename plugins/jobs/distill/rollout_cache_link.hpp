// Shows a cache of keys and values to the rollouts of a network alone, so that one network makes videos on the cache
// and is trained without it.
#pragma once
#include "kinora/abi/cache.h"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {

// Passes of session 0 go past the cache. A cache owns no parameters, so it needs no other calls than those below:
// attention, and the linear layers of the text, whose results it keeps.
class RolloutCacheLink final : public kinora::Link<at::Tensor> {
 public:
  // cache: the link of a CacheInstance, which outlives this object and is in no other chain.
  explicit RolloutCacheLink(const kinora_link* cache);
  // The link for a chain, which also binds the cache.
  const kinora_link* get() const { return &own_; }

  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const kinora_attention& how) override;
  kinora_param parameter(const kinora_param_spec& spec) override;
  at::Tensor linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override;
  void begin(const kinora_pass& pass) override;

 private:
  const kinora_link* cache_;
  kinora_link own_{};
};

}  // namespace kinora::core
