// Exchanges heads for tokens and back by all-to-alls: the core of DeepSpeed-Ulysses (Jacobs et al. 2023, arXiv
// 2309.14509). A rank has its part of the tokens and all heads before, and all ranks' tokens, in rank order,
// and its part of the heads after. For the pinned tier.
//
// Any number of heads: H heads of queries and K of keys, each for g = H / K of queries. A head of keys is
// copied r times, r the smallest divisor of g with which no rank gets more than ceil(H / P) heads of queries; then
// heads of zeros are appended until all ranks have the same number. Copies sum their gradients; gradients of zeros
// are dropped.
//
// Bytes that a rank sends, forward and backward each, for elements of e bytes, with h and k the heads of queries and
// of keys that a rank gets, and N / P tokens per rank:
//   (P - 1) B (N / P) (h + 2 k + h) d e
//
// B batch, N tokens, P ranks, S queries and L keys of this rank, E shared keys, d width of a head.
#pragma once
#include <functional>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/context.hpp"
#include "kinora/transfers.hpp"

KINORA_SDK_BEGIN

namespace kinora {

class HeadExchange {
 public:
  // The all-to-all of [P, ..., n] along the first dimension, with its backward. Null: exchanged() of
  // kinora/transfers.hpp.
  using Exchange = std::function<at::Tensor(const Group<at::Tensor>&, const at::Tensor&)>;

  HeadExchange(Group<at::Tensor> group, int64_t heads, int64_t kv_heads, Exchange exchange = {})
      : group_(group), heads_(heads), kv_heads_(kv_heads), exchange_(std::move(exchange)) {
    const int64_t P = group.size(), each = heads / kv_heads, least = (heads + P - 1) / P;
    const auto keys_here = [&](int64_t copies) { return (kv_heads * copies + P - 1) / P; };
    while (each % copies_ || keys_here(copies_) * (each / copies_) > least) ++copies_;
    kv_here_ = keys_here(copies_);
    here_ = kv_here_ * (each / copies_);
  }

  // Copies of each head of keys.
  int64_t copies() const { return copies_; }
  // Heads of queries that a rank gets, and how many of all ranks' are zeros.
  int64_t here() const { return here_; }
  int64_t kv_here() const { return kv_here_; }
  int64_t zeros() const { return here_ * group_.size() - heads_; }
  // Describes for the log how heads that do not divide are handled; empty if they divide.
  std::string told() const {
    std::string out;
    if (copies_ > 1)
      out = "each of " + std::to_string(kv_heads_) + " heads of keys is copied " + std::to_string(copies_) +
            " times";
    if (zeros() > 0)
      out += (out.empty() ? "" : ", ") + std::to_string(zeros()) + " heads of zeros are appended to " +
             std::to_string(heads_);
    return out.empty() ? out : out + ", for " + std::to_string(group_.size()) + " ranks";
  }

  struct Heads {
    at::Tensor q, k, v;
  };
  // q [B, S, H, d], k, v [B, L, K, d] -> [B, P S, h, d], [B, P L, k, d]; one all-to-all where S = L.
  Heads to_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const {
    const at::Tensor q_part = parts(q, here_), k_part = parts(copied(k), kv_here_),
                     v_part = parts(copied(v), kv_here_);
    if (q.size(1) == k.size(1)) {
      const auto made = swapped({q_part, k_part, v_part});
      return {of_heads(made[0], here_), of_heads(made[1], kv_here_), of_heads(made[2], kv_here_)};
    }
    const auto keys = swapped({k_part, v_part});
    return {of_heads(swapped({q_part})[0], here_), of_heads(keys[0], kv_here_), of_heads(keys[1], kv_here_)};
  }
  // [B, P S, h, d] -> [B, S, H, d].
  at::Tensor to_tokens(const at::Tensor& x) const {
    const at::Tensor of_ranks = x.unflatten(1, {group_.size(), -1}).transpose(0, 1).contiguous();
    const at::Tensor of_tokens = exchange(of_ranks.flatten(3)).unflatten(3, {here_, -1});
    return of_tokens.permute({1, 2, 0, 3, 4}).flatten(2, 3).narrow(2, 0, heads_);
  }
  // Keys that all ranks have, [B, E, K, d] -> those of this rank's heads.
  at::Tensor own(const at::Tensor& shared) const {
    if (!shared.defined()) return shared;
    return padded(copied(shared), kv_here_).narrow(2, group_.rank() * kv_here_, kv_here_);
  }

 private:
  at::Tensor copied(const at::Tensor& x) const { return copies_ == 1 ? x : x.repeat_interleave(copies_, 2); }
  at::Tensor padded(const at::Tensor& x, int64_t each) const {
    const int64_t missing = each * group_.size() - x.size(2);
    return missing ? at::constant_pad_nd(x, {0, 0, 0, missing}) : x;
  }
  // [B, S, H, d] -> [B, S, P, each d]
  at::Tensor parts(const at::Tensor& x, int64_t each) const {
    return padded(x, each).reshape({x.size(0), x.size(1), group_.size(), each * x.size(3)});
  }
  // Several [B, S, P, n] at once -> each [B, P S, n]. Ranks are the first dimension of the buffer, so that
  // it is contiguous for sending: joining the tensors is the only copy.
  std::vector<at::Tensor> swapped(const std::vector<at::Tensor>& x) const {
    std::vector<int64_t> sizes;
    std::vector<at::Tensor> of_ranks;
    for (const auto& t : x) {
      sizes.push_back(t.size(3));
      of_ranks.push_back(t.permute({2, 0, 1, 3}));
    }
    const at::Tensor all = x.size() == 1 ? of_ranks[0].contiguous() : at::cat(of_ranks, 3).contiguous();
    return exchange(all).transpose(0, 1).flatten(1, 2).split_with_sizes(sizes, 2);
  }
  at::Tensor exchange(const at::Tensor& x) const {
    return exchange_ ? exchange_(group_, x) : exchanged(group_, x, 0, 0);
  }
  static at::Tensor of_heads(const at::Tensor& x, int64_t heads) { return x.unflatten(2, {heads, -1}); }

  Group<at::Tensor> group_;
  int64_t heads_, kv_heads_, copies_ = 1, here_ = 0, kv_here_ = 0;
  Exchange exchange_;
};

// A link's attention over tokens that are split over `group`: attend(q, k, v, how) is called with all of them
// and some of the heads. q_table, k_table: of all tokens, in rank order.
template <class Attend>
at::Tensor attend_by_heads(const HeadExchange& by, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const kinora_attention& how, const at::Tensor& q_table,
                           const at::Tensor& k_table, Attend attend) {
  const at::Tensor k_shared = by.own(borrow<at::Tensor>(how.k_shared)),
                   v_shared = by.own(borrow<at::Tensor>(how.v_shared));
  kinora_attention of_all = how;
  of_all.k_shared = handle(k_shared);
  of_all.v_shared = handle(v_shared);
  of_all.q_table = handle(q_table);
  of_all.k_table = handle(k_table);
  const auto here = by.to_heads(q, k, v);
  return by.to_tokens(attend(here.q, here.k, here.v, of_all));
}

}  // namespace kinora

KINORA_SDK_END
