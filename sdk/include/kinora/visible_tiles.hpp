// Visibility as rectangles of queries and keys: most rules are blocks of frames or chunks, which need no
// mask and skip the invisible pairs. For the pinned tier, and links that attend piece by piece.
//
// S queries, L keys.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

namespace kinora {

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

// see(q_table, k_table): bool [1 or B, some, L]. Tables on the CPU. If a rule does not form blocks, masks of one
// byte per pair are kept.
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

}  // namespace kinora
