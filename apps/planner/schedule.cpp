// GPipe (Huang et al. 2019), 1F1B and its interleaved form (Narayanan et al. 2021, arXiv 2104.04473, section
// 2.2).
#include <algorithm>

#include "apps/planner/step.hpp"

namespace kinora::core::plan {
namespace {

// The k-th forward or backward of a stage: groups of P microbatches pass through one chunk after the other.
Turn interleaved(int64_t k, int64_t stages, int64_t chunks, bool backward) {
  const int64_t chunk = k / stages % chunks;
  return {backward, backward ? chunks - 1 - chunk : chunk, k / (stages * chunks) * stages + k % stages};
}

int64_t warm_up(const Layout& l, int64_t stage, int64_t all) {
  if (l.schedule == Schedule::gpipe) return all;
  if (l.schedule == Schedule::one_f_one_b) return std::min(all, l.pp - stage - 1);
  return std::min(all, 2 * (l.pp - stage - 1) + (l.virtual_stages - 1) * l.pp);
}

}  // namespace

std::vector<Turn> turns(const Layout& l, int64_t stage, int64_t microbatches) {
  const bool groups = l.schedule == Schedule::interleaved && l.pp > 1;
  const int64_t all = microbatches * l.virtual_stages, warm = l.pp > 1 ? warm_up(l, stage, all) : 0;
  const auto turn = [&](int64_t k, bool backward) {
    return groups ? interleaved(k, l.pp, l.virtual_stages, backward) : Turn{backward, 0, k};
  };
  std::vector<Turn> out;
  int64_t f = 0, b = 0;
  while (f < warm) out.push_back(turn(f++, false));
  while (f < all) out.push_back(turn(f++, false)), out.push_back(turn(b++, true));
  while (b < all) out.push_back(turn(b++, true));
  return out;
}

}  // namespace kinora::core::plan
