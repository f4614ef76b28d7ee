#include "decided_cuts.hpp"

#include <algorithm>

namespace kinora::video {

std::vector<int64_t> decided_cuts(const std::vector<NamedCuts>& found, const std::string& decide, int64_t tolerance) {
  if (const auto one = std::find_if(found.begin(), found.end(), [&](const auto& d) { return d.name == decide; });
      one != found.end())
    return decided_cuts({*one}, "any", 0);
  struct Cut {
    int64_t frame;
    size_t by;
  };
  std::vector<Cut> all;
  for (size_t by = 0; by < found.size(); ++by)
    for (const int64_t cut : found[by].cuts)
      if (cut > 0) all.push_back({cut, by});
  std::sort(all.begin(), all.end(), [](const Cut& a, const Cut& b) { return a.frame < b.frame; });
  std::vector<int64_t> out;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    for (end = begin + 1; end < all.size() && all[end].frame - all[end - 1].frame <= tolerance;) ++end;
    std::vector<bool> has(found.size());
    Cut first = all[begin];
    for (size_t i = begin; i < end; ++i) {
      has[all[i].by] = true;
      if (all[i].by < first.by) first = all[i];
    }
    if (decide == "any" || std::find(has.begin(), has.end(), false) == has.end()) out.push_back(first.frame);
  }
  return out;
}

}  // namespace kinora::video
