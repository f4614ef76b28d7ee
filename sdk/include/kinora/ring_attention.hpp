// Attention over keys that are split over the ranks of a ring (Liu et al. 2023, arXiv 2310.01889). Keys and
// values travel around the ring, and each block's result is merged by a running softmax. A rank holds one
// block of keys and the one that arrives meanwhile. In the backward they travel around again together with
// their gradients, which return to their owner last. Every rank forwards every block, also one that none of
// its queries see. For the pinned tier.
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
#include <algorithm>
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

// Runs of consecutive tokens that a rule tells apart by INDEX alone: of equal values in the other columns that
// it reads, and of consecutive INDEX; or padding.
struct TokenRuns {
  at::Tensor index;        // int64 [1 or B, tokens]
  at::Tensor first, last;  // int64 [runs]: rows of the table
  at::Tensor of;           // int64 [tokens]: the run of each token
  Span tokens(const Span& runs) const {
    const int64_t from = first[runs.first].item<int64_t>();
    return {from, last[runs.first + runs.second - 1].item<int64_t>() + 1 - from};
  }
};

// Over time only tokens of one place, ROW and COL, can see each other. int64 [1 or B, tokens].
inline at::Tensor places_of(const at::Tensor& table) {
  return table.select(2, KINORA_TOKEN_ROW) * (int64_t{1} << 32) + table.select(2, KINORA_TOKEN_COL);
}

// Spans of queries and the keys that these may see: over time whole places, if both tables are in the order of
// their places; otherwise all.
inline std::vector<std::pair<Span, Span>> pieces_of(const at::Tensor& q_table, const at::Tensor& k_table,
                                                    uint32_t over) {
  constexpr int64_t least = 256;  // queries; more of them have larger masks, fewer of them more tiles
  const std::vector<std::pair<Span, Span>> all{{{0, q_table.size(1)}, {0, k_table.size(1)}}};
  if (over != KINORA_OVER_TIME) return all;
  const at::Tensor q = places_of(q_table).contiguous(), k = places_of(k_table).contiguous();
  for (const at::Tensor& x : {q, k})
    if ((x != x[0]).any().item<bool>() || (x.slice(1, 1) < x.slice(1, 0, -1)).any().item<bool>()) return all;
  const int64_t *at = q.const_data_ptr<int64_t>(), n = q.size(1), *keys = k.const_data_ptr<int64_t>(),
                *keys_end = keys + k.size(1);
  std::vector<std::pair<Span, Span>> out;
  for (int64_t i = 0, end = 0; i < n; i = end) {
    end = std::upper_bound(at, at + n, at[std::min(i + least, n) - 1]) - at;
    const auto *first = std::lower_bound(keys, keys_end, at[i]),
               *last = std::upper_bound(first, keys_end, at[end - 1]);
    if (first != last) out.push_back({{i, end - i}, {first - keys, last - first}});
  }
  return out;
}

inline TokenRuns runs_of(const at::Tensor& table, uint32_t over) {
  constexpr int64_t longest = 256;  // tokens, so that the masks of a causal rule are small
  const int64_t n = table.size(1) - 1;
  const at::Tensor read = table.clone(), index = table.select(2, KINORA_TOKEN_INDEX);
  std::vector<int64_t> unread{KINORA_TOKEN_INDEX, KINORA_TOKEN_TIME};
  if (over != KINORA_OVER_SPACE) unread.push_back(KINORA_TOKEN_FRAME);
  if (over != KINORA_OVER_TIME) unread.insert(unread.end(), {KINORA_TOKEN_ROW, KINORA_TOKEN_COL});
  for (const int64_t column : unread) read.select(2, column).zero_();
  const at::Tensor before = index.narrow(1, 0, n), here = index.narrow(1, 1, n),
                   follows = ((before >= 0) & (here == before + 1) & (here % longest != 0)) |
                             ((before < 0) & (here < 0)),
                   alike = (read.narrow(1, 1, n) == read.narrow(1, 0, n)).all(2);
  const at::Tensor starts = at::cat({at::ones({1}, at::kBool), ~(follows & alike).all(0)}),
                   first = starts.nonzero().flatten(), end = at::full({1}, n + 1, at::kLong);
  return {index, first, at::cat({first.slice(0, 1), end}) - 1, starts.cumsum(0) - 1};
}

// The keys that the runs of queries from `top` on see.
struct SeenRuns {
  const TokenRuns &q, &k;
  int64_t top;
  // bool [1 or B, runs of queries, runs of keys]: all of a run see all of the other; some see some.
  at::Tensor every, some;

  // Spans of consecutive runs of queries that see the same keys; spans of up to `most` queries if those would be
  // short. Runs are counted from `top`.
  std::vector<Span> alike(int64_t most) const {
    constexpr int64_t least = 16;  // fewest queries, on average, that justify a product of their own
    const int64_t n = every.size(1);
    const auto pair = [&](const at::Tensor& x) {
      return std::pair{x.narrow(1, 0, n - 1), x.narrow(1, 1, n - 1)};
    };
    const auto [e, next_e] = pair(every);
    const auto [s, next_s] = pair(some);
    const at::Tensor changes = ((e != next_e) | (s != next_s) | (e != s)).any(2).any(0);
    const bool are_short = (changes.sum().item<int64_t>() + 1) * least > q.tokens({top, n}).second;
    std::vector<Span> out{{0, 1}};
    for (int64_t i = 1; i < n; ++i) {
      const auto [first, count] = out.back();
      const bool ends =
          are_short ? q.tokens({top + first, count + 1}).second > most : changes[i - 1].item<bool>();
      if (ends) out.push_back({i, 0});
      ++out.back().second;
    }
    return out;
  }

  at::Tensor mask(const Span& queries, const Span& keys) const {
    const auto rows = [](const at::Tensor& x, int64_t dim, const Span& s) {
      return x.narrow(dim, s.first, s.second);
    };
    const auto wide = [&](const at::Tensor& x) {
      return x.index_select(1, rows(q.of, 0, queries) - top).index_select(2, rows(k.of, 0, keys));
    };
    return wide(every) |
           (wide(some) & (rows(k.index, 1, keys).unsqueeze(1) <= rows(q.index, 1, queries).unsqueeze(2)));
  }

  void add_tiles(VisibleTiles& to, const Span& runs, at::Device device) const {
    constexpr size_t few = 4;
    const at::Tensor all = every.narrow(1, runs.first, runs.second).all(1).all(0),
                     any = some.narrow(1, runs.first, runs.second).any(1).any(0);
    auto whole = spans_of(all), parts = spans_of(any & ~all);
    if (whole.size() > few || parts.size() > (runs.second == 1 ? few : 0)) {
      const auto seen = spans_of(any);
      whole.clear();
      parts = {{seen.front().first, seen.back().first + seen.back().second - seen.front().first}};
    }
    const Span queries = q.tokens({top + runs.first, runs.second});
    for (const auto& [spans, masked] : {std::pair{&whole, false}, std::pair{&parts, true}})
      for (const Span& span : *spans) {
        const Span keys = k.tokens(span);
        to.push_back({queries.first, queries.second, keys.first, keys.second,
                      masked ? mask(queries, keys).to(device) : at::Tensor()});
      }
  }
};

template <class See>
VisibleTiles tiles_of(const at::Tensor& q_table, const at::Tensor& k_table, uint32_t over, at::Device device,
                      See see) {
  constexpr int64_t most = int64_t{1} << 22;
  VisibleTiles out;
  const TokenRuns q = runs_of(q_table, over), k = runs_of(k_table, over);
  const int64_t n = q.first.numel(), m = k.first.numel(), band = std::max<int64_t>(most / m, 1);
  const bool are_single = n == q_table.size(1) && m == k_table.size(1);
  for (int64_t top = 0; top < n; top += band) {
    const auto seen = [&](const at::Tensor& rows, const at::Tensor& keys) {
      return see(q_table.index_select(1, rows.slice(0, top, top + band)), k_table.index_select(1, keys));
    };
    const at::Tensor every =
        seen(q.first, k.last);  // the first query sees fewest keys, and fewest see the last key
    const SeenRuns runs{q, k, top, every, are_single ? every : seen(q.last, k.first)};
    for (const auto& span : runs.alike(most / k_table.size(1))) runs.add_tiles(out, span, device);
  }
  return out;
}

}  // namespace detail

// int64 [tokens] on the CPU: an order in which the tokens of one ROW and COL follow each other, in the order that they
// have in the table. If there are B tables, the first one decides.
inline at::Tensor order_by_place(const at::Tensor& table) {
  return at::argsort(detail::places_of(table.narrow(0, 0, 1).to(at::kCPU))[0], /*stable=*/true, 0, false);
}

// see(q_table, k_table): bool [1 or B, S, L] for any rows of the tables, which are on the CPU. It may read INDEX to
// hide padding and keys of higher INDEX than their query, FRAME over space, ROW and COL over time, and TIME
// never. It is asked for the ends of runs of tokens that differ in INDEX alone. Where these do not form few
// blocks, masks of one byte per pair are kept.
//
// Over time every token is a run. If both tables are in the order of their places (order_by_place), it is asked, and
// masks are kept, only for pairs in groups of places, of 256 queries or a place's: linear in the tokens. Otherwise, or
// if places differ among B tables, for all pairs.
template <class See>
VisibleTiles visible_tiles(const at::Tensor& q_table, const at::Tensor& k_table, uint32_t over,
                           at::Device device, See see) {
  VisibleTiles out;
  if (q_table.size(1) == 0 || k_table.size(1) == 0) return out;
  for (const auto& [q, k] : detail::pieces_of(q_table, k_table, over))
    for (VisibleTile& t : detail::tiles_of(q_table.narrow(1, q.first, q.second),
                                           k_table.narrow(1, k.first, k.second), over, device, see)) {
      t.q_first += q.first, t.k_first += k.first;
      out.push_back(std::move(t));
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
