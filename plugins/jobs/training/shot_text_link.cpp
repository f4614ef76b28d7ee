#include "plugins/jobs/training/shot_text_link.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

at::Tensor ShotTextLink::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const kinora_attention& how) {
  const bool reads_text = how.q_seq && (!how.kv_seq || how.k_shared);
  if (shots_ == 1 || !reads_text) return next.attention(q, k, v, how);
  if (how.kv_seq || how.k_table || k.size(1) % shots_ != 0)
    raise(KINORA_ERROR_UNSUPPORTED,
          "attention '{}': its {} shared keys are not the texts of {} shots alone; shots needs a model with "
          "cross-attention to the text and no other tokens there; leave shots out",
          how.name ? how.name : "", k.size(1), shots_);
  const auto& its = tables(borrow<at::Tensor>(how.q_table), borrow<at::Tensor>(how.kv_valid), k.size(1));
  kinora_attention by_shot = how;
  by_shot.q_table = handle(its.q);
  by_shot.k_table = handle(its.k);
  by_shot.kv_valid = nullptr;
  return next.attention(q, k, v, by_shot);
}

const ShotTextLink::Tables& ShotTextLink::tables(const at::Tensor& q_table, const at::Tensor& valid,
                                                 int64_t keys) {
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    if (!a.defined() || !b.defined()) return a.defined() == b.defined();
    return a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides();
  };
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Tables& t) {
    return same(t.given_q, q_table) && same(t.valid, valid) && t.keys == keys;
  });
  if (known != known_.end()) {
    known_.splice(known_.begin(), known_, known);
    return known_.front();
  }
  constexpr size_t most = 8;
  if (known_.size() == most) known_.pop_back();
  known_.push_front(made(q_table, valid, keys));
  return known_.front();
}

// Among shared keys the rule compares SAMPLE alone, and so the shot takes its place.
ShotTextLink::Tables ShotTextLink::made(const at::Tensor& q_table, const at::Tensor& valid,
                                        int64_t keys) const {
  const auto o = q_table.options();
  const at::Tensor q = at::zeros_like(q_table), index = q_table.select(2, KINORA_TOKEN_INDEX);
  q.select(2, KINORA_TOKEN_INDEX).copy_(index);
  q.select(2, KINORA_TOKEN_SAMPLE).copy_(at::where(index < 0, -1, q_table.select(2, KINORA_TOKEN_SHOT)));
  const bool is_one = !valid.defined() || at::equal(valid, valid.narrow(0, 0, 1).expand_as(valid));
  const at::Tensor k = at::zeros({is_one ? 1 : valid.size(0), keys, KINORA_TOKEN_COLUMNS}, o);
  k.select(2, KINORA_TOKEN_SAMPLE).copy_(at::arange(shots_, o).repeat_interleave(keys / shots_));
  if (valid.defined()) k.select(2, KINORA_TOKEN_INDEX).copy_(valid.narrow(0, 0, k.size(0)).to(at::kLong) - 1);
  return {q_table, valid, keys, q, k};
}

}  // namespace kinora::core
