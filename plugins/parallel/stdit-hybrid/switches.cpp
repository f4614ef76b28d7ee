#include "plugins/parallel/stdit-hybrid/switches.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/abi/context.h"

namespace kinora {
namespace {

using Key = std::array<int64_t, 3>;

// The run of each token, of P runs of whole groups of tokens with one key. `apart`: every sample is split
// into its own P runs, otherwise all tokens together are.
template <class KeyOf>
std::vector<int64_t> runs_of(const at::Tensor& table, int64_t P, bool apart, KeyOf key_of) {
  const auto* t = table.const_data_ptr<int64_t>();
  const int64_t tokens = table.size(0), columns = table.size(1);
  std::map<Key, int64_t> sizes;
  std::map<int64_t, int64_t> totals;
  const auto row = [=](int64_t i) { return t + i * columns; };
  const auto whole = [apart](const Key& k) { return apart ? k[0] : 0; };
  for (int64_t i = 0; i < tokens; ++i) {
    const Key key = key_of(row(i));
    ++sizes[key];
    ++totals[whole(key)];
  }
  std::map<Key, int64_t> runs;
  std::map<int64_t, int64_t> before;
  for (const auto& [key, size] : sizes) {  // by the position of the group's middle
    int64_t& first = before[whole(key)];
    runs[key] = P * (2 * first + size) / (2 * totals[whole(key)]);
    first += size;
  }
  std::vector<int64_t> out;
  for (int64_t i = 0; i < tokens; ++i) out.push_back(runs[key_of(row(i))]);
  return out;
}

}  // namespace

Switches make_switches(const at::Tensor& table, int64_t rank, int64_t P, int64_t part, int64_t T) {
  const at::Tensor rows = table[0].to(at::kCPU).contiguous();
  const int64_t tokens = rows.size(0);
  const auto frame = runs_of(rows, P, false, [](const int64_t* r) {
    return Key{r[KINORA_TOKEN_SAMPLE], r[KINORA_TOKEN_FRAME], 0};
  });
  const auto place = runs_of(rows, P, true, [](const int64_t* r) {
    return Key{r[KINORA_TOKEN_SAMPLE], r[KINORA_TOKEN_ROW], r[KINORA_TOKEN_COL]};
  });

  std::vector<std::vector<int64_t>> cells(static_cast<size_t>(P * P));
  for (int64_t i = 0; i < tokens; ++i)
    cells[static_cast<size_t>(frame[static_cast<size_t>(i)] * P + place[static_cast<size_t>(i)])].push_back(
        i);
  size_t most = 1;
  for (const auto& c : cells) most = std::max(most, c.size());
  const int64_t slots = (static_cast<int64_t>(most) + T - 1) / T * T;
  int64_t padding = tokens;
  for (auto& c : cells)
    while (static_cast<int64_t>(c.size()) < slots) c.push_back(padding++);

  at::Tensor ids = at::empty({P, P, T, slots / T}, at::kLong);  // frames, places, part, slot
  for (size_t i = 0; i < cells.size(); ++i)
    std::copy(cells[i].begin(), cells[i].end(), ids.data_ptr<int64_t>() + static_cast<int64_t>(i) * slots);
  const auto in_order = [&](const at::Tensor& of_ranks) {
    return std::get<0>(of_ranks.reshape({P * T, -1}).sort(1)).flatten();
  };
  const at::Tensor sent = ids[rank].select(1, part).flatten(),
                   came = ids.select(1, rank).select(1, part).flatten();
  Switches out;
  out.padding = padding - tokens;
  out.by_frames = in_order(ids.permute({0, 2, 1, 3}));
  out.by_places = in_order(ids.permute({1, 2, 0, 3}));
  out.enter_frames = sent.argsort();
  out.leave_frames = out.enter_frames.argsort();
  out.enter_places = came.argsort();
  out.leave_places = out.enter_places.argsort();
  for (auto* index : {&out.by_frames, &out.by_places, &out.enter_frames, &out.leave_frames, &out.enter_places,
                      &out.leave_places})
    *index = index->to(table.device());
  return out;
}

}  // namespace kinora
