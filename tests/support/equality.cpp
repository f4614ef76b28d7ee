#include "tests/support/equality.hpp"

#include <gtest/gtest.h>

#include "tests/support/run_file.hpp"

namespace kinora::test {

void equals_one_process(const Rank& me, const Trial& trial, double bound) {
  me.launched();
  if (bound == 0) bound = trial.precision == "fp64" ? 1e-10 : 1e-5;
  core::Equality(runtime(), trial).run([&](const core::Compared& c) {
    EXPECT_LE(c.off, bound) << c.what() << ", step " << c.step << ", rank " << me.rank << " of " << me.size
                            << ", " << trial.parallel;
  });
}

}  // namespace kinora::test
