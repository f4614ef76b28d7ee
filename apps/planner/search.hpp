// All legal layouts of a run, priced, and the best of them.
#pragma once
#include <optional>

#include "apps/planner/memory.hpp"
#include "apps/planner/step.hpp"

namespace kinora::core::plan {

struct Plan {
  Layout layout;
  Step step;
  std::vector<Held> memory;
};

// The layout given, priced: legal or not as to memory, which Plan::memory tells. KINORA_INVALID: the rules
// that it breaks, and the nearest legal layouts.
Result<Plan> price(const Layout&, const Problem&);

struct Found {
  std::vector<Plan> best;      // simulated, the fastest first; one of each mesh and strategy of cp
  int64_t legal = 0, fit = 0;  // layouts that were looked at, and those that fit in memory
  // The fastest that fits by estimate where one thing is as given: "tp = 1", "cp = 1", ... and its seconds
  // over the best's estimate; none: nothing of it fits.
  struct Instead {
    std::string what;
    std::optional<Layout> layout;
    double slower = 0;
    double needs = 0;  // bytes of the leanest, if nothing fits
  };
  std::vector<Instead> instead;
};

// own: one that is in use; if it is legal and fits, none that is slower comes before it. KINORA_INVALID: no
// layout is legal, or none fits, and what the leanest needs.
Result<Found> search(const Problem&, int64_t count = 5, const std::optional<Layout>& own = {});

// A smaller cluster on which a step takes no longer.
struct Fewer {
  Cluster cluster;
  Plan plan;
};
// The smallest part of the cluster, whole nodes or some GPUs of one, whose best layout takes at most a
// hundredth longer than `seconds`; nothing: every part is slower.
std::optional<Fewer> as_fast_with_fewer(const Problem&, double seconds);

// Legal layouts next to one that is not: fewest factors of two apart.
std::vector<Layout> nearest(const Layout&, const Problem&, size_t count = 3);

}  // namespace kinora::core::plan
