// Attention over keys that are split over the ranks of a ring (Liu et al. 2023, arXiv 2310.01889). Keys and
// values travel around the ring, and each block's result is merged by a running softmax. A rank holds one block of keys and
// the one that arrives meanwhile. In the backward they travel around again together with their gradients, which
// return to their owner last. Every rank forwards every block, also one that none of its queries see. For the pinned tier.
//
// Kernel attends to one block; kernels/torch/attention_block.hpp implements one and describes each member:
//   struct Block { at::Tensor out, log_sum; };  struct Gradient { at::Tensor q, k, v; };
//   static Block nothing(q, v_size), attend(q, k, v, scale, mask);  static void merge(all, more);
//   static Gradient attend_back(grad, q, k, v, all, scale, mask);
//
// Bytes that a rank sends, for elements of e bytes (w for gradients: 8 for float64, else 4), with R ranks, L
// keys per rank and K heads of keys:
//   forward   (R - 1) B L K 2 d e
//   backward  (R - 1) B L K 2 d e + R B L K 2 d w
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/autograd.hpp"
#include "kinora/strategy.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// Visibility as rectangles of queries and keys: most rules are blocks of frames or chunks, which need no
// mask and skip the invisible pairs. For the pinned tier, and links that attend piece by piece.
//
// S queries, L keys.

// Queries [q_first, q_first + q_count) see keys [k_first, k_first + k_count), or those that the mask allows.
struct VisibleTile {
  int64_t q_first, q_count, k_first, k_count;
  at::Tensor mask;  // bool [1 or B, q_count, k_count]; undefined: all
};
using VisibleTiles = std::vector<VisibleTile>;

namespace detail {

using Span = std::pair<int64_t, int64_t>;  // first, count

// The spans where a bool vector on the CPU is true.
inline std::vector<Span> spans_of(const at::Tensor& flags) {
  const at::Tensor dense = flags.contiguous();
  const bool* on = dense.data_ptr<bool>();
  std::vector<Span> out;
  for (int64_t i = 0; i < dense.numel(); ++i) {
    if (!on[i]) continue;
    if (out.empty() || out.back().first + out.back().second < i) out.push_back({i, 0});
    ++out.back().second;
  }
  return out;
}

// Spans of consecutive rows that see the same keys; all rows as one span if they differ from row to row.
inline std::vector<Span> rows_alike(const at::Tensor& seen) {
  const int64_t S = seen.size(1);
  if (S == 1) return {{0, 1}};
  const at::Tensor changes =
      (seen.narrow(1, 1, S - 1) != seen.narrow(1, 0, S - 1)).any(2).any(0).nonzero().flatten();
  constexpr int64_t least = 16;  // fewest rows that justify a product of their own
  if ((changes.numel() + 1) * least > S) return {{0, S}};
  std::vector<Span> out;
  int64_t first = 0;
  for (int64_t i = 0; i <= changes.numel(); ++i) {
    const int64_t next = i < changes.numel() ? changes[i].item<int64_t>() + 1 : S;
    out.push_back({first, next - first});
    first = next;
  }
  return out;
}

}  // namespace detail

// see(q_table, k_table): bool [1 or B, some, L]. Tables on the CPU. If a rule does not form blocks, masks of
// one byte per pair are kept.
template <class See>
VisibleTiles visible_tiles(const at::Tensor& q_table, const at::Tensor& k_table, at::Device device, See see) {
  constexpr int64_t most = int64_t{1} << 22, splits = 4;
  const int64_t S = q_table.size(1), L = k_table.size(1),
                band = std::max<int64_t>(most / std::max<int64_t>(L, 1), 1);
  VisibleTiles out;
  for (int64_t top = 0; top < S; top += band) {
    const at::Tensor seen = see(q_table.narrow(1, top, std::min(band, S - top)), k_table);
    for (const auto& [row, rows] : detail::rows_alike(seen)) {
      const at::Tensor here = seen.narrow(1, row, rows), some = here.any(1).any(0);
      const auto spans = detail::spans_of(some);
      if (spans.empty()) continue;
      if (here.all(1).all(0).equal(some) && static_cast<int64_t>(spans.size()) <= splits) {
        for (const auto& [first, count] : spans) out.push_back({top + row, rows, first, count, {}});
        continue;
      }
      const int64_t first = spans.front().first, count = spans.back().first + spans.back().second - first;
      out.push_back({top + row, rows, first, count, here.narrow(2, first, count).contiguous().to(device)});
    }
  }
  return out;
}

// For all tiles: pairs of a query and a key that are multiplied, visible or not.
inline int64_t pairs_of(const VisibleTiles& tiles) {
  int64_t n = 0;
  for (const auto& t : tiles) n += t.q_count * t.k_count;
  return n;
}

// Sends a tensor to the next rank of the ring while receiving the previous rank's. Neighbours post in
// turns, so that transports that block a send until it is received (NCCL) do not deadlock.
class RingHop {
 public:
  RingHop(const Group<at::Tensor>& g, const at::Tensor& x, int64_t tag) {
    const int64_t R = g.size(), to = (g.rank() + 1) % R, from = (g.rank() + R - 1) % R;
    if (g.rank() % 2 == 0) sent_ = g.send(x, to, tag);
    arrives_ = g.receive(x, from, tag);
    if (g.rank() % 2 == 1) sent_ = g.send(x, to, tag);
  }
  at::Tensor finish() {
    if (arrived_.defined()) return arrived_;
    arrived_ = arrives_.finish();
    sent_.finish();
    return arrived_;
  }

 private:
  Started<at::Tensor> sent_, arrives_;
  at::Tensor arrived_;
};

// For each rank r of a ring: which of this rank's queries see which of rank r's keys.
using RingPlan = std::vector<VisibleTiles>;

template <class Kernel>
class RingAttention {
 public:
  using Tensor = at::Tensor;
  // overlap: transfers run while blocks are computed; otherwise before.
  RingAttention(Group<Tensor> group, bool overlap) : group_(group), overlap_(overlap) {}

  // Keys that every rank has, seen by all queries: k, v [B, E, K, d]; valid: bool [B, E] or undefined.
  struct Shared {
    Tensor k, v, valid;
  };
  // q [B, S, H, d], k, v [B, L, K, d] of this rank, K a divisor of H -> [B, S, H, d].
  Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                    std::shared_ptr<const RingPlan> plan, const Shared& shared = {}) const {
    const auto kept = std::make_shared<Kept>(Kept{std::move(plan), scale, shared.valid, k.size(3)});
    std::vector<Tensor> in{q, k, v};
    if (shared.k.defined()) in.insert(in.end(), {shared.k, shared.v});
    return autograd_apply<Tensor>(
        in, 1,
        [self = *this, kept](const std::vector<Tensor>& x) { return std::vector{self.forward(*kept, x)}; },
        [self = *this, kept](const std::vector<Tensor>& g) { return self.backward(*kept, g[0]); })[0];
  }

 private:
  static constexpr int64_t kKeys = 0, kGradients = 1;  // tags
  struct Kept {
    std::shared_ptr<const RingPlan> plan;
    double scale;
    Tensor valid;
    int64_t size;                         // d of keys; values follow them
    Tensor q = {}, kv = {}, shared = {};  // detached; keys and values are one tensor
    typename Kernel::Block all = {};
    at::ScalarType type = at::kFloat;

    Tensor keys(const Tensor& both) const { return both.narrow(3, 0, size); }
    Tensor values(const Tensor& both) const { return both.narrow(3, size, both.size(3) - size); }
    VisibleTile shared_tile() const {
      return {0, q.size(1), 0, shared.size(1),
              valid.defined() ? valid.unsqueeze(1).expand({-1, q.size(1), -1}) : valid};
    }
  };

  // The rank whose keys are here in step s.
  size_t owner(int64_t s) const {
    return static_cast<size_t>((group_.rank() - s + group_.size()) % group_.size());
  }
  std::optional<RingHop> hop(const Tensor& x, int64_t tag) const {
    std::optional<RingHop> made(std::in_place, group_, x, tag);
    if (!overlap_) made->finish();
    return made;
  }
  static Tensor for_queries(const Tensor& x, int64_t H) {
    return x.size(2) == H ? x : x.repeat_interleave(H / x.size(2), 2);
  }

  static void attend(const Kept& c, const Tensor& both, const VisibleTile& t) {
    const int64_t H = c.q.size(2);
    const Tensor rows = both.narrow(1, t.k_first, t.k_count);
    Kernel::merge({c.all.out.narrow(1, t.q_first, t.q_count), c.all.log_sum.narrow(1, t.q_first, t.q_count)},
                  Kernel::attend(c.q.narrow(1, t.q_first, t.q_count), for_queries(c.keys(rows), H),
                                 for_queries(c.values(rows), H), c.scale, t.mask));
  }

  Tensor forward(Kept& c, const std::vector<Tensor>& in) const {
    c.q = in[0].detach();
    c.type = in[0].scalar_type();
    c.kv = at::cat({in[1], in[2]}, 3);
    if (in.size() > 3) c.shared = at::cat({in[3], in[4]}, 3);
    c.all = Kernel::nothing(c.q, in[2].size(3));
    if (c.shared.defined()) attend(c, c.shared, c.shared_tile());
    Tensor here = c.kv;
    for (int64_t s = 0; s < group_.size(); ++s) {
      std::optional<RingHop> next;
      if (s + 1 < group_.size()) next = hop(here, kKeys);
      for (const auto& t : (*c.plan)[owner(s)]) attend(c, here, t);
      if (next) here = next->finish();
    }
    return c.all.out.detach().to(c.type);  // the graph's own reference would be a cycle
  }

  // Adds a tile's gradients to those of all queries and of these keys.
  static void attend_back(const Kept& c, const Tensor& grad, const Tensor& both, const VisibleTile& t,
                          const Tensor& grad_q, const Tensor& grad_both) {
    const int64_t H = c.q.size(2), K = both.size(2);
    const auto some = [&](const Tensor& x) { return x.narrow(1, t.q_first, t.q_count); };
    const Tensor rows = both.narrow(1, t.k_first, t.k_count), to = grad_both.narrow(1, t.k_first, t.k_count);
    const auto g = Kernel::attend_back(some(grad), some(c.q), for_queries(c.keys(rows), H),
                                       for_queries(c.values(rows), H), {some(c.all.out), some(c.all.log_sum)},
                                       c.scale, t.mask);
    const auto of_keys = [&](const Tensor& x) { return K == H ? x : x.unflatten(2, {K, H / K}).sum(3); };
    some(grad_q).add_(g.q);
    c.keys(to).add_(of_keys(g.k));
    c.values(to).add_(of_keys(g.v));
  }

  std::vector<Tensor> backward(const Kept& c, const Tensor& grad) const {
    const auto wide = c.all.out.options();
    const Tensor grad_q = at::zeros(c.q.sizes(), wide);
    const auto zeros = [&](const Tensor& x) { return at::zeros(x.sizes(), wide); };
    Tensor here = c.kv, home;
    for (int64_t s = 0; s < group_.size(); ++s) {
      std::optional<RingHop> next, sums;
      if (s + 1 < group_.size()) next = hop(here, kKeys);
      if (s > 0)
        sums = hop(home, kGradients);  // gradients of the previous keys, to the rank that has these keys now
      const Tensor own = zeros(here);
      for (const auto& t : (*c.plan)[owner(s)]) attend_back(c, grad, here, t, grad_q, own);
      home = sums ? own.add_(sums->finish()) : own;
      if (next) here = next->finish();
    }
    if (group_.size() > 1) home = RingHop(group_, home, kGradients).finish();
    std::vector<Tensor> out{grad_q, c.keys(home), c.values(home)};
    if (c.shared.defined()) {
      const Tensor own = zeros(c.shared);
      attend_back(c, grad, c.shared, c.shared_tile(), grad_q, own);
      out.insert(out.end(), {c.keys(own), c.values(own)});
    }
    for (auto& x : out) x = x.to(c.type);
    return out;
  }

  Group<Tensor> group_;
  bool overlap_;
};

}  // namespace kinora

KINORA_SDK_END
