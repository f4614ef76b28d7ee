#include "core/torch/attention/visibility.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

Frames::Window Frames::window_of(int64_t chunk, int64_t shot) const {
  if (window <= 0) return {std::numeric_limits<int64_t>::min(), -1};
  if (pin == Pin::before && shot > 0 && cuts.at(static_cast<size_t>(shot - 1)) == chunk) --shot;
  const int64_t first = chunk - window + 1,
                pinned = pin == Pin::none || shot == 0 ? -1 : cuts.at(static_cast<size_t>(shot - 1));
  return {first + (pinned >= sink && pinned < first && window > 1), pinned};
}

namespace {

// The windows of queries: first chunks and pins, int64 [2, 1 or B, S, 1].
at::Tensor windows_of(const Frames& rule, const at::Tensor& table) {
  const at::Tensor cpu = table.to(at::kCPU), out = at::empty({2, table.size(0), table.size(1), 1}, at::kLong);
  const auto row = cpu.accessor<int64_t, 3>();
  auto to = out.accessor<int64_t, 4>();
  for (int64_t b = 0; b < table.size(0); ++b)
    for (int64_t i = 0; i < table.size(1); ++i) {
      const auto [first, pin] = rule.window_of(row[b][i][KINORA_TOKEN_CHUNK], row[b][i][KINORA_TOKEN_SHOT]);
      to[0][b][i][0] = first, to[1][b][i][0] = pin;
    }
  return out.to(table.device());
}

// Fills one video's rows from `to` on; `first` has the initial INDEX, FRAME and SAMPLE.
struct First {
  int64_t index, frame, sample;
};
void write_rows(int64_t* to, const Frames& rule, const VideoSize& v, const First& first) {
  const int64_t each = v.frames / rule.streams, area = v.rows * v.cols;
  if (v.frames % rule.streams)
    raise(KINORA_ERROR_INVALID, "{} frames are not {} streams of equal length", v.frames, rule.streams);
  if (!rule.times.empty() && static_cast<int64_t>(rule.times.size()) != each)
    raise(KINORA_ERROR_INVALID, "temporal positions of {} frames are given, the video has {}",
          rule.times.size(), each);
  for (int64_t i = 0; i < v.frames * area; ++i, to += KINORA_TOKEN_COLUMNS) {
    const int64_t frame = i / area, in_stream = frame % each;
    to[KINORA_TOKEN_INDEX] = first.index + i;
    to[KINORA_TOKEN_FRAME] = first.frame + frame;
    to[KINORA_TOKEN_TIME] =
        rule.times.empty() ? rule.start + in_stream : rule.times[static_cast<size_t>(in_stream)];
    to[KINORA_TOKEN_ROW] = i % area / v.cols;
    to[KINORA_TOKEN_COL] = i % v.cols;
    to[KINORA_TOKEN_NOISY] = rule.streams == 2 ? frame / each : 0;
    const int64_t chunk = rule.chunks().of(rule.start + in_stream);
    to[KINORA_TOKEN_CHUNK] = rule.has_chunks() ? chunk : 0;
    to[KINORA_TOKEN_SAMPLE] = first.sample;
    to[KINORA_TOKEN_SHOT] = std::upper_bound(rule.cuts.begin(), rule.cuts.end(), chunk) - rule.cuts.begin();
  }
}

}  // namespace

at::Tensor token_table(const Frames& rule, const std::vector<VideoSize>& samples, int64_t padding) {
  // The number of tokens before `start` would depend on an area that differs between samples.
  if (samples.size() > 1 && rule.start > 0)
    raise(KINORA_ERROR_UNSUPPORTED,
          "a packed row of {} videos cannot continue at frame {}; stream them one by one", samples.size(),
          rule.start);
  int64_t n = 0;
  for (const auto& v : samples) n += v.frames * v.rows * v.cols;
  auto table = at::zeros({1, n + padding, KINORA_TOKEN_COLUMNS}, at::kLong);
  auto* t = table.data_ptr<int64_t>();
  First first{samples.empty() ? 0 : rule.start * samples[0].rows * samples[0].cols, 0, 0};
  for (const auto& v : samples) {
    const int64_t tokens = v.frames * v.rows * v.cols;
    write_rows(t, rule, v, first);
    t += tokens * KINORA_TOKEN_COLUMNS;
    first = {first.index + tokens, first.frame + v.frames, first.sample + 1};
  }
  for (int64_t i = 0; i < padding; ++i, t += KINORA_TOKEN_COLUMNS)
    t[KINORA_TOKEN_INDEX] = t[KINORA_TOKEN_SAMPLE] = -1;
  return table;
}

at::Tensor visible(const Frames& rule, const at::Tensor& q_table, const at::Tensor& k_table, uint32_t over) {
  const auto q = [&](int64_t column) { return q_table.select(2, column).unsqueeze(2); };
  const auto k = [&](int64_t column) { return k_table.select(2, column).unsqueeze(1); };
  const auto same = [&](int64_t column) { return q(column) == k(column); };
  auto sees = same(KINORA_TOKEN_SAMPLE) & (k(KINORA_TOKEN_INDEX) >= 0);
  if (over == KINORA_OVER_SPACE) sees = sees & same(KINORA_TOKEN_FRAME);
  if (over == KINORA_OVER_TIME) sees = sees & same(KINORA_TOKEN_ROW) & same(KINORA_TOKEN_COL);
  if (rule.before) sees = sees & (k(KINORA_TOKEN_INDEX) <= q(KINORA_TOKEN_INDEX));
  if (!rule.has_chunks()) return sees;
  const auto qc = q(KINORA_TOKEN_CHUNK), kc = k(KINORA_TOKEN_CHUNK), qs = q(KINORA_TOKEN_NOISY),
             ks = k(KINORA_TOKEN_NOISY);
  if (rule.window > 0) {
    const auto windows = windows_of(rule, q_table);
    sees = sees & ((kc >= windows[0]) | (kc < rule.sink) | (kc == windows[1]));
  }
  if (rule.streams == 1) return sees & (kc <= qc);
  return sees & (((qs == 0) & (ks == 0) & (kc <= qc)) |
                 ((qs == 1) & (((ks == 0) & (kc < qc)) | ((ks == 1) & (kc == qc)))));
}

namespace {

// The functions below give the rule as groups of queries that see the same keys.

struct Range {
  int64_t first, count;
};
using Ranges = std::vector<Range>;

void append(Ranges& to, int64_t first, int64_t count) {
  if (!to.empty() && to.back().first + to.back().count == first) {
    to.back().count += count;
  } else {
    to.push_back({first, count});
  }
}
int64_t total(const Ranges& r) {
  int64_t n = 0;
  for (const auto& x : r) n += x.count;
  return n;
}

// Identifies tokens that the rule cannot tell apart, within one place.
using Signature = std::array<int64_t, 3>;  // chunk, stream, shot
using SamePlace = std::array<int64_t, 3>;  // sample, and the coordinates that `over` requires to be equal
using Tokens = std::map<SamePlace, std::map<Signature, Ranges>>;

Tokens sort_tokens(const at::Tensor& cpu, uint32_t over, bool keys) {
  const auto* t = cpu.data_ptr<int64_t>();
  Tokens out;
  for (int64_t i = 0; i < cpu.size(0); ++i, t += cpu.size(1)) {
    if (t[KINORA_TOKEN_INDEX] < 0 && keys) continue;
    SamePlace place{t[KINORA_TOKEN_SAMPLE], 0, 0};
    if (over == KINORA_OVER_SPACE) place[1] = t[KINORA_TOKEN_FRAME];
    if (over == KINORA_OVER_TIME) place = {place[0], t[KINORA_TOKEN_ROW], t[KINORA_TOKEN_COL]};
    append(out[place][{t[KINORA_TOKEN_CHUNK], t[KINORA_TOKEN_NOISY], t[KINORA_TOKEN_SHOT]}], i, 1);
  }
  return out;
}

bool sees(const Frames& rule, const Signature& q, const Signature& k) {
  if (!rule.has_chunks()) return true;
  const auto [qc, qs, shot] = q;
  const auto [kc, ks, of_key] = k;
  const auto [first, pin] = rule.window_of(qc, shot);
  if (kc < first && kc >= rule.sink && kc != pin) return false;
  if (rule.streams == 1 || (qs == 0 && ks == 0)) return kc <= qc;
  return qs == 1 && (ks == 0 ? kc < qc : kc == qc);
}

// Keys in table order, so that sums do not depend on how the rule groups them.
Ranges keys_of(const Frames& rule, const Signature& q, const std::map<Signature, Ranges>& keys) {
  Ranges all, out;
  for (const auto& [k, ranges] : keys)
    if (sees(rule, q, k)) all.insert(all.end(), ranges.begin(), ranges.end());
  std::sort(all.begin(), all.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  for (const auto& r : all) append(out, r.first, r.count);
  return out;
}

// Rows of a table, ordered by INDEX.
struct Indexed {
  int64_t index, row;
  bool operator<(const Indexed& other) const { return index < other.index; }
};
std::vector<Indexed> by_index(const Ranges& ranges, const at::Tensor& cpu) {
  const auto* t = cpu.data_ptr<int64_t>();
  std::vector<Indexed> out;
  for (const auto& r : ranges)
    for (int64_t i = r.first; i < r.first + r.count; ++i)
      out.push_back({t[i * cpu.size(1) + KINORA_TOKEN_INDEX], i});
  std::stable_sort(out.begin(), out.end());
  return out;
}

// Queries with the keys that they see.
struct QueryGroup {
  Ranges q, k;
  bool before = false;
};

// The rest of the rule shows these keys to all of these queries; each query sees those up to itself. Queries
// that are consecutive among the keys form one group, so a whole sequence, or the end of a longer one, is one
// group.
std::vector<QueryGroup> groups_before(const Ranges& q, const at::Tensor& q_table, const Ranges& k,
                                      const at::Tensor& k_table) {
  const auto queries = by_index(q, q_table), keys = by_index(k, k_table);
  std::vector<QueryGroup> out;
  std::vector<size_t> seen;  // indexed by the last query of each group
  size_t n = 0;
  for (const auto& query : queries) {
    const size_t before = n;
    while (n < keys.size() && keys[n].index <= query.index) ++n;
    const bool follows = before > 0 && n == before + 1 && keys[before].index == query.index;
    if (out.empty() || !follows) out.emplace_back(), seen.emplace_back();
    append(out.back().q, query.row, 1);
    seen.back() = n;
  }
  for (size_t g = 0; g < out.size(); ++g) {
    for (size_t i = 0; i < seen[g]; ++i) append(out[g].k, keys[i].row, 1);
    out[g].before = total(out[g].q) > 1;
  }
  return out;
}

Rows rows_of(const Ranges& r, at::Device device) {
  if (r.size() == 1) return {r[0].first, r[0].count, {}};
  auto index = at::empty({total(r)}, at::kLong);
  auto* to = index.data_ptr<int64_t>();
  for (const auto& x : r)
    for (int64_t i = 0; i < x.count; ++i) *to++ = x.first + i;
  return {-1, index.numel(), index.to(device)};
}

at::Tensor inverse(const std::vector<Ranges>& joined, int64_t n, at::Device device) {
  auto order = at::empty({n}, at::kLong);
  auto* to = order.data_ptr<int64_t>();
  int64_t at = 0;
  bool in_order = true;
  for (const auto& ranges : joined)
    for (const auto& r : ranges)
      for (int64_t i = r.first; i < r.first + r.count; ++i, ++at) {
        in_order &= i == at;
        to[i] = at;
      }
  return in_order ? at::Tensor() : order.to(device);
}

}  // namespace

VisiblePlan plan_visible(const Frames& rule, const at::Tensor& q_table, const at::Tensor& k_table,
                         uint32_t over, at::Device device) {
  const auto q_rows = q_table.to(at::kCPU).contiguous(), k_rows = k_table.to(at::kCPU).contiguous();
  const Tokens queries = sort_tokens(q_rows, over, false), keys = sort_tokens(k_rows, over, true);
  std::map<std::array<int64_t, 3>, QueryGroup> batches;  // keyed by sizes and `before`
  Ranges blind;
  for (const auto& [place, signatures] : queries) {
    const auto here = keys.find(place);
    for (const auto& [signature, q] : signatures) {
      const Ranges k = here == keys.end() ? Ranges() : keys_of(rule, signature, here->second);
      const auto groups =
          rule.before ? groups_before(q, q_rows, k, k_rows) : std::vector<QueryGroup>{{q, k, false}};
      for (const auto& g : groups) {
        if (g.k.empty()) {
          for (const auto& r : g.q) append(blind, r.first, r.count);
          continue;
        }
        auto& batch = batches[{total(g.q), total(g.k), g.before}];
        for (const auto& r : g.q) append(batch.q, r.first, r.count);
        for (const auto& r : g.k) append(batch.k, r.first, r.count);
      }
    }
  }
  VisiblePlan out;
  std::vector<Ranges> joined;
  for (auto& [sizes, b] : batches) {
    out.batches.push_back({total(b.q) / sizes[0], sizes[0], sizes[1], rows_of(b.q, device),
                           rows_of(b.k, device), sizes[2] != 0});
    joined.push_back(std::move(b.q));
  }
  out.blind = total(blind);
  joined.push_back(std::move(blind));
  out.order = inverse(joined, q_table.size(0), device);
  return out;
}

}  // namespace kinora::core
