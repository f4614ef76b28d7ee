#include "plugins/parallel/balanced-sp/pairs.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/ATen.h>

#include "kinora/abi/context.h"

namespace kinora {
namespace {

int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

Owners own_runs(const at::Tensor& table, int64_t P, int64_t multiple) {
  const int64_t tokens = table.size(1), all = rounded_up(tokens, P * multiple);
  return {all - tokens, at::arange(all, table.options())};
}

Owners own_pairs(const at::Tensor& table, int64_t P, int64_t multiple) {
  const at::Tensor rows = table[0].to(at::kCPU), stream = rows.select(1, KINORA_TOKEN_NOISY),
                   there = rows.select(1, KINORA_TOKEN_INDEX) >= 0;
  const at::Tensor clean = (there & (stream == 0)).nonzero().flatten(),
                   noisy = (there & (stream == 1)).nonzero().flatten(), rest = (~there).nonzero().flatten();
  if (clean.size(0) == 0 || clean.size(0) != noisy.size(0)) return own_runs(table, P, multiple);
  const int64_t tokens = rows.size(0);
  int64_t each = (clean.size(0) + P - 1) / P;  // pairs per rank
  while (2 * each % multiple || 2 * each * P < tokens) ++each;
  Owners out;
  out.padding = 2 * each * P - tokens;
  const at::Tensor pads = at::cat({rest, at::arange(tokens, tokens + out.padding, rest.options())});
  const int64_t missing = each * P - clean.size(0);
  const at::Tensor pairs = at::stack(
      {at::cat({clean, pads.narrow(0, 0, missing)}), at::cat({noisy, pads.narrow(0, missing, missing)})});
  out.order = pairs.reshape({2, P, each}).transpose(0, 1).flatten().to(table.device());
  return out;
}

std::vector<Load> loads_of(const at::Tensor& table, int64_t P) {
  const at::Tensor rows = table[0].to(at::kCPU).contiguous();
  const int64_t each = rows.size(0) / P;
  const auto* t = rows.data_ptr<int64_t>();
  std::vector<Load> out(static_cast<size_t>(P));
  const bool two = rows.select(1, KINORA_TOKEN_NOISY).any().item<bool>();
  for (auto& load : out) {
    std::set<std::pair<int64_t, int64_t>> frames;
    for (int64_t i = 0; i < each; ++i, t += rows.size(1)) {
      if (t[KINORA_TOKEN_INDEX] < 0) continue;
      ++load.tokens;
      load.loss_tokens += !two || t[KINORA_TOKEN_NOISY] == 1;
      frames.emplace(t[KINORA_TOKEN_SAMPLE], t[KINORA_TOKEN_TIME]);
    }
    load.frames = static_cast<int64_t>(frames.size());
  }
  return out;
}

}  // namespace kinora
