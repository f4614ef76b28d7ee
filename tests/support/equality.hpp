// Strategies of a test's ranks against one process.
#pragma once
#include "plugins/jobs/training/equality.hpp"
#include "tests/support/ranks.hpp"

namespace kinora::test {

using core::Trial;

// On every rank of on_ranks(). bound: of the worst difference by the largest number of its kind; 0: 1e-10 in
// float64, else 1e-5.
void equals_one_process(const Rank&, const Trial&, double bound = 0);

}  // namespace kinora::test
