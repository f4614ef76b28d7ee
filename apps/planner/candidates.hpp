// Every legal layout of a run that does nothing in vain, one after the other.
#pragma once
#include <functional>

#include "apps/planner/layout.hpp"

namespace kinora::core::plan {

// recompute_every is 0 in all of them. Microbatches are of 1, 2, 4 ... samples.
void each_layout(const Problem&, const std::function<void(const Layout&)>&);

}  // namespace kinora::core::plan
