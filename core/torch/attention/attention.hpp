// The base's attention: softmax(scale q k^T) v over the keys that the run's rule makes visible to each query.
#pragma once
#include <list>
#include <memory>

#include "core/torch/attention/visibility.hpp"
#include "kernels/torch/fp8_attention.hpp"
#include "kinora/abi/context.h"

namespace kinora::core {

// Plans of the tables that were used last: tables live as long as the sequences of a run, so each needs one plan.
class VisiblePlans {
 public:
  const VisiblePlan& of(const Frames& rule, const at::Tensor& q_table, const at::Tensor& k_table,
                        uint32_t over);
  void clear() { known_.clear(); }

 private:
  struct CachedVisibility {
    at::Tensor q_table, k_table;  // kept alive, so that their addresses identify them
    uint32_t over;
    VisiblePlan plan;
  };
  std::list<CachedVisibility> known_;  // latest first
};

// q [B, S, H, d], k, v [B, L, H, d] -> as q; how.scale, kv_valid, k_shared, v_shared and bias as defined in context.h.
// Without tables every query sees every key. fp8: does what how.q_factor allows, where it can; null: nothing is in FP8.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const kinora_attention& how, const Frames& rule, VisiblePlans& plans,
                     gpu::Fp8Attention* fp8 = nullptr);

}  // namespace kinora::core
