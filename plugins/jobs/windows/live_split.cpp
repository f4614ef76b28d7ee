#include "plugins/jobs/windows/live_split.hpp"

#include <set>

#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/loading/held_out.hpp"

namespace kinora::core {

bool LiveSplit::accepts(bool of_validation, const std::string& key) const {
  return held_out == 0 || (hash_share(key) < held_out) == of_validation;
}

std::vector<uint64_t> LiveSplit::validation(DataOrder& order, size_t most) const {
  std::vector<uint64_t> out;
  std::set<std::string> seen;
  for (uint64_t slot = 0; slot < order.pass() && out.size() < most; ++slot)
    if (const std::string key = order.key(slot); accepts(true, key) && seen.insert(key).second)
      out.push_back(slot);
  if (out.empty())
    raise(KINORA_ERROR_INVALID,
          "validation = {} leaves none of {} samples to validation; choose another share", held_out,
          order.pass());
  return out;
}

}  // namespace kinora::core
