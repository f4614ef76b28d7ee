#include "plugins/caches/kv/eviction.hpp"

#include <algorithm>

namespace kinora {

bool is_within(const std::vector<Range>& ranges, int64_t index) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& r) { return r.first <= index && index < r.end; });
}

std::vector<int64_t> staying(const std::vector<int64_t>& stored, const std::vector<int64_t>& fresh,
                             const Bounds& bounds, const std::vector<Range>& pinned) {
  const int64_t first = *std::min_element(fresh.begin(), fresh.end());
  const auto stays = [&](int64_t index) { return index < bounds.sink || is_within(pinned, index); };
  std::vector<int64_t> loose, out;
  int64_t kept = 0;  // pinned tokens that the forward sees
  for (const int64_t index : stored) {
    if (index >= first) continue;
    if (stays(index))
      ++kept;
    else
      loose.push_back(index);
  }
  const auto own = std::count_if(fresh.begin(), fresh.end(), [&](int64_t i) { return !stays(i); });
  kept += static_cast<int64_t>(fresh.size()) - own;
  std::sort(loose.begin(), loose.end());
  int64_t oldest = 0;  // INDEX from which on a token stays that is not pinned
  if (bounds.window > 0 || bounds.capacity > 0) {
    const int64_t room = (bounds.capacity > 0 ? bounds.capacity - kept : bounds.window) - own;
    const auto stay = static_cast<size_t>(std::max<int64_t>(room, 0));
    if (stay < loose.size()) oldest = stay == 0 ? first : loose[loose.size() - stay];
  }
  for (size_t at = 0; at < stored.size(); ++at)
    if (stored[at] < first && (stored[at] >= oldest || stays(stored[at])))
      out.push_back(static_cast<int64_t>(at));
  return out;
}

}  // namespace kinora
