#include "plugins/jobs/distill/rollout_cache_link.hpp"

#include <ATen/ATen.h>

namespace kinora::core {

RolloutCacheLink::RolloutCacheLink(const kinora_link* cache) : Link(cache->level), cache_(cache) {
  skip_inherited<RolloutCacheLink>();
  own_ = *Link::get();
  own_.bind = [](void* self, const kinora_chain* chain) {
    const auto& link = static_cast<const RolloutCacheLink&>(*static_cast<kinora::Link<at::Tensor>*>(self));
    const int32_t status = link.kinora::Link<at::Tensor>::get()->bind(self, chain);
    return status == KINORA_OK ? link.cache_->bind(link.cache_->context->self, chain) : status;
  };
}

at::Tensor RolloutCacheLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                       const kinora_attention& how) {
  const kinora_context& cache = *cache_->context;
  if (pass().session == 0 || !cache.attention) return next.attention(q, k, v, how);
  kinora_tensor out = nullptr;
  check(cache.attention(cache.self, handle(q), handle(k), handle(v), &how, &out));
  return adopt<at::Tensor>(out);
}

// The cache hands the declaration on.
kinora_param RolloutCacheLink::parameter(const kinora_param_spec& spec) {
  const kinora_context& cache = *cache_->context;
  if (!cache.parameter) return next.parameter(spec);
  kinora_param out = 0;
  check(cache.parameter(cache.self, &spec, &out));
  return out;
}

at::Tensor RolloutCacheLink::linear(const at::Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  const kinora_context& cache = *cache_->context;
  if (!cache.linear || pass().session == 0) return next.linear(x, w, b, seq);
  kinora_tensor out = nullptr;
  check(cache.linear(cache.self, handle(x), w, b, seq, &out));
  return adopt<at::Tensor>(out);
}

void RolloutCacheLink::begin(const kinora_pass& pass) {
  if (cache_->begin) check(cache_->begin(cache_->context->self, &pass));
}

}  // namespace kinora::core
