#include "plugins/jobs/loading/failed_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

// The number of the failing sample at which more have failed than accepted, of at most 20, after `used` were used.
int refused_at(const DataReading& reading, int used) {
  FailedSamples failed("job", reading);
  for (int i = 0; i < used; ++i) failed.add_used(static_cast<uint64_t>(i));
  for (int n = 1; n <= 20; ++n) try {
      failed.add("sample " + std::to_string(n), "torn");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_DATA);
      EXPECT_EQ(failed.count(), n);
      return n;
    }
  return 0;
}

TEST(FailedSamples, AreAcceptedUpToTheirNumber) {
  EXPECT_EQ(refused_at({.max_failed = 3}, 0), 4);
  EXPECT_EQ(refused_at({.max_failed = 0}, 0), 1);
  EXPECT_EQ(refused_at({}, 0), 0);
}

TEST(FailedSamples, AreAcceptedUpToTheirShareOfAThousand) {
  EXPECT_EQ(refused_at({.max_failed_share = 0.003}, 995), 5) << "the thousandth sample";
  EXPECT_EQ(refused_at({.max_failed_share = 0.003}, 2000), 7) << "7 of 2007 is above 0.3 %, 6 of 2006 is not";
  EXPECT_EQ(refused_at({.max_failed_share = 0.003}, 100), 0);
  EXPECT_EQ(refused_at({.max_failed_share = 0}, 100), 1);
}

TEST(FailedSamples, CountOnce) {
  FailedSamples failed("job", {.max_failed = 1});
  for (int i = 0; i < 5; ++i) failed.add("sample 1 of a.tar", "torn");
  EXPECT_EQ(failed.count(), 1);
}

TEST(FailedSamples, CountShortOnesApartAndSayTheRemedyOnce) {
  FailedSamples failed("latents", {.max_failed = 0, .max_failed_share = 0});
  testing::internal::CaptureStderr();
  for (int turn = 0; turn < 2; ++turn)
    for (int i = 0; i < 3; ++i)
      failed.add_short("sample " + std::to_string(i) + " of a.tar", "5 frames where a window needs 17", 33);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(failed.short_count(), 3);
  EXPECT_EQ(failed.count(), 0);
  EXPECT_THAT(
      said,
      HasSubstr("latents: sample 0 of a.tar is too short and left out: 5 frames where a window needs 17"));
  EXPECT_EQ(said.find("where = \"frames >= 33\""), said.rfind("where = \"frames >= 33\""));
  EXPECT_THAT(said, testing::Not(HasSubstr("sample 1")));
}

TEST(FailedSamples, TheErrorNamesTheLastTheNumbersAndTheRemedy) {
  FailedSamples failed("latents", {.max_failed = 1});
  for (const uint64_t slot : {0, 1, 2, 10, 2, 11, 12, 20, 0, 21}) failed.add_used(slot);
  failed.add("sample 1 of a.tar", "torn");
  EXPECT_EQ(
      test::refusal([&] { failed.add("sample 2 of a.tar", "too short"); }),
      "latents: 2 of 10 samples cannot be used, more than max_failed = 1 allows; the last is sample 2 of "
      "a.tar: too short; look at the data with kinora data verify, or raise the limit in the table of data");
  FailedSamples shared("latents", {.max_failed_share = 0});
  EXPECT_THAT(test::refusal([&] { shared.add("sample 1 of a.tar", "torn"); }),
              HasSubstr("more than max_failed_share = 0 allows"));
}

}  // namespace
}  // namespace kinora::core
