// Compares a test's strategies on several ranks with one process.
#pragma once
#include "plugins/jobs/training/equality.hpp"
#include "tests/support/ranks.hpp"

namespace kinora::test {

using core::Trial;

// Call on every rank of on_ranks(). bound: for the worst difference relative to the largest number of its kind; 0: 1e-10 in
// float64, else 1e-5.
void equals_one_process(const Rank&, const Trial&, double bound = 0);

}  // namespace kinora::test
