// Which stored tokens a forward sees. The others are evicted when it begins.
#pragma once
#include <cstdint>
#include <vector>

namespace kinora {

// A range of INDEX.
struct Range {
  int64_t first, end;
};
bool is_within(const std::vector<Range>& ranges, int64_t index);

struct Bounds {
  // Tokens that are not pinned, the forward's own included; 0: no bound.
  int64_t window = 0;
  // All tokens, the forward's own included; 0: no bound. The first `sink` tokens are pinned.
  int64_t capacity = 0, sink = 0;
};

// stored, fresh: INDEX of the stored tokens and of the forward's own. Returns the positions in `stored`, ascending, of
// those that precede the forward and are pinned or among the latest others that the bounds leave room for.
std::vector<int64_t> staying(const std::vector<int64_t>& stored, const std::vector<int64_t>& fresh,
                             const Bounds& bounds, const std::vector<Range>& pinned);

}  // namespace kinora
