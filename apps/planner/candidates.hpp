// Enumerates every legal layout of a run, without those that waste ranks or work (vanities()).
#pragma once
#include <functional>

#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

// recompute_every is 0 in all of them. Microbatch sizes are 1, 2, 4 ... samples.
void each_layout(const Problem&, const std::function<void(const Layout&)>&);

}  // namespace kinora::core::plan
