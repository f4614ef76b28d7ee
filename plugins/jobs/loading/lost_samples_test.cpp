#include "plugins/jobs/loading/lost_samples.hpp"

#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "kinora/error.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string sample(int n) { return "sample " + std::to_string(n) + " of a.tar"; }

const Unused kTorn{.kind = Unused::Kind::failed, .why = "torn", .remedy = {}};
const Unused kShort{Unused::Kind::too_short, "5 frames where a window needs 17", "where = \"frames >= 33\""};
Unused dropped_by(const std::string& rule) { return {Unused::Kind::dropped, rule, ""}; }

// Returns what is logged, from information on.
std::string said(const std::function<void()>& f) {
  or_throw(set_log_level("info"));
  testing::internal::CaptureStderr();
  f();
  return testing::internal::GetCapturedStderr();
}

// The number of the failing sample at which more have failed than accepted, of at most 20, after `used` were used.
int refused_at(const DataReading& reading, int used) {
  LostSamples lost("job", reading);
  for (int i = 0; i < used; ++i) lost.add_used(static_cast<uint64_t>(i));
  for (int n = 1; n <= 20; ++n) try {
      lost.add(sample(n), kTorn);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_DATA);
      EXPECT_EQ(lost.failed(), n);
      return n;
    }
  return 0;
}

TEST(LostSamples, AreAcceptedUpToTheirNumber) {
  EXPECT_EQ(refused_at({.max_failed = 3}, 0), 4);
  EXPECT_EQ(refused_at({.max_failed = 0}, 0), 1);
  EXPECT_EQ(refused_at({}, 0), 0);
}

TEST(LostSamples, AreAcceptedUpToTheirShareOfAThousand) {
  EXPECT_EQ(refused_at({.max_failed_share = 0.003}, 995), 5) << "the thousandth sample";
  EXPECT_EQ(refused_at({.max_failed_share = 0.003}, 2000), 7) << "7 of 2007 is above 0.3 %, 6 of 2006 is not";
  EXPECT_EQ(refused_at({.max_failed_share = 0.003}, 100), 0);
  EXPECT_EQ(refused_at({.max_failed_share = 0}, 100), 1);
}

TEST(LostSamples, CountOnce) {
  LostSamples lost("job", {.max_failed = 1});
  for (int i = 0; i < 5; ++i) lost.add(sample(1), kTorn);
  EXPECT_EQ(lost.failed(), 1);
}

TEST(LostSamples, OfEachReasonAreCountedApartAndOutsideTheBudget) {
  LostSamples lost("latents", {.max_failed = 0, .max_failed_share = 0});
  const std::string log = said([&] {
    for (int turn = 0; turn < 2; ++turn)
      for (int i = 0; i < 3; ++i) {
        lost.add(sample(i), kShort);
        lost.add(sample(10 + i), dropped_by("filter.blur"));
      }
    lost.add(sample(10), dropped_by("filter.facts"));
    lost.add(sample(20), held_out());
    lost.log();
  });
  EXPECT_EQ(lost.counts(),
            json({{"failed", 0}, {"too_short", 3}, {"dropped", {{"filter.blur", 3}, {"filter.facts", 1}}}}));
  EXPECT_EQ(log.find("where = \"frames >= 33\""), log.rfind("where = \"frames >= 33\""));
  EXPECT_THAT(log,
              AllOf(HasSubstr("latents: sample 0 of a.tar is too short and left out: 5 frames where a window "
                              "needs 17"),
                    HasSubstr("latents: sample 10 of a.tar is dropped by filter.blur"),
                    Not(HasSubstr("sample 1 of")), Not(HasSubstr("sample 11")), Not(HasSubstr("sample 20")),
                    HasSubstr("latents: samples left out: 3 dropped by filter.blur, 1 dropped by "
                              "filter.facts, 3 too short")));
}

TEST(LostSamples, TheErrorNamesTheLastTheNumbersAndTheRemedy) {
  LostSamples lost("latents", {.max_failed = 1});
  for (const uint64_t slot : {0, 1, 2, 10, 2, 11, 12, 20, 0, 21}) lost.add_used(slot);
  lost.add(sample(1), kTorn);
  EXPECT_EQ(
      test::refusal([&] { lost.add(sample(2), {.why = "cut off"}); }),
      "latents: 2 of 10 samples cannot be used, more than max_failed = 1 allows; the last is sample 2 of "
      "a.tar: cut off; look at the data with kinora data verify, or raise the limit in the table of data");
  LostSamples shared("latents", {.max_failed_share = 0});
  EXPECT_THAT(test::refusal([&] { shared.add(sample(1), kTorn); }),
              HasSubstr("more than max_failed_share = 0 allows"));
}

TEST(LostSamples, FoundAtTheOpeningCountAgainstTheNumberAndTheirShareOfTheSet) {
  LostSamples lost("latents", {.max_failed = 3, .max_failed_share = 0.5});
  for (int i = 0; i < 2; ++i) lost.add_unread(sample(i), "its json is not JSON", 40);
  EXPECT_EQ(lost.failed(), 2);
  lost.add(sample(7), kTorn);
  EXPECT_THAT(test::refusal([&] { lost.add(sample(8), kTorn); }),
              HasSubstr("4 of 4 samples cannot be used, more than max_failed = 3 allows"));
  LostSamples share("latents", {.max_failed_share = 0.001});
  share.add_unread(sample(0), "torn", 2000);
  share.add_unread(sample(1), "torn", 2000);
  EXPECT_THAT(
      test::refusal([&] { share.add_unread(sample(2), "torn", 2000); }),
      HasSubstr("3 of 2000 samples cannot be used, more than max_failed_share = 0.001 allows; the last is "
                "sample 2 of a.tar: torn"));
}

// Two ranks that share what they lost have the limit of one, and count a sample that both met once.
TEST(LostSamples, OfAllRanksHaveOneBudget) {
  LostSamples one("job", {.max_failed = 4}), two("job", {.max_failed = 4});
  const auto share = [&](bool all) {
    const std::vector<std::string> of_ranks{one.take_shared(all), two.take_shared(all)};
    return test::refusal([&] { one.merge(of_ranks); }) + " / " + test::refusal([&] { two.merge(of_ranks); });
  };
  for (int i = 0; i < 3; ++i) one.add(sample(i), kTorn);
  two.add(sample(2), kTorn);
  two.add(sample(5), dropped_by("filter.blur"));
  EXPECT_TRUE(one.has_new() && two.has_new());
  EXPECT_EQ(share(false), "nothing was refused / nothing was refused");
  EXPECT_FALSE(one.has_new() || two.has_new());
  EXPECT_EQ(one.failed(), 3);
  EXPECT_EQ(two.failed(), 3);
  two.add(sample(1), kTorn);
  EXPECT_FALSE(two.has_new()) << "the other rank has met it";
  EXPECT_EQ(share(true), "nothing was refused / nothing was refused");
  EXPECT_EQ(one.counts().at("dropped"), json({{"filter.blur", 1}}));
  one.add(sample(10), kTorn);
  two.add(sample(11), kTorn);
  const std::string refused =
      "job: 5 of 5 samples cannot be used, more than max_failed = 4 allows; the last is named above";
  EXPECT_THAT(share(false), AllOf(testing::StartsWith(refused), HasSubstr(" / " + refused)));
}

TEST(LostSamples, TheShareIsOfTheSlotsThatAllRanksUsed) {
  LostSamples lost("job", {.max_failed_share = 0.01});
  for (uint64_t slot = 0; slot < 500; ++slot) lost.add_used(slot);
  lost.set_used(2000);  // of four ranks
  for (int i = 0; i < 20; ++i) lost.add(sample(i), kTorn);
  EXPECT_THAT(test::refusal([&] { lost.add(sample(20), kTorn); }),
              HasSubstr("21 of 2021 samples cannot be used, more than max_failed_share = 0.01"));
}

TEST(LostSamples, TheStateContinuesTheCount) {
  LostSamples before("job", {}), after("job", {.max_failed = 3});
  for (int i = 0; i < 3; ++i) before.add(sample(i), kTorn);
  before.add_unread(sample(9), "torn", 10);
  after.restore(json::parse(before.state().dump()));
  EXPECT_EQ(after.failed(), 3) << "what the opening finds is found again";
  after.add(sample(2), kTorn);
  EXPECT_THAT(test::refusal([&] { after.add(sample(4), kTorn); }), HasSubstr("4 of 4 samples"));
}

TEST(LostSamples, TheStateIsSmallAndItsNumberExact) {
  LostSamples many("job", {.max_failed_share = 1}), after("job", {.max_failed_share = 1});
  std::set<std::string> names;
  for (int i = 0; i < 10'000; ++i) names.insert(fmt::format("{:012x}", i));
  many.merge({json{{"damaged", names}}.dump()});
  const std::string state = many.state().dump();
  EXPECT_LT(state.size(), 65536u);
  after.restore(json::parse(state));
  EXPECT_EQ(after.failed(), 10'000);
}

TEST(LostSamples, RefuseWhatIsNoState) {
  for (const char* bad :
       {"[]", "{}", R"({"failed": 1})", R"({"failed": -1, "names": ""})", R"({"failed": 1, "names": "0f"})",
        R"({"failed": 1, "names": "000000000000111111111111"})", R"({"failed": 1.5, "names": ""})",
        R"({"failed": 1, "names": 2})"}) {
    LostSamples lost("job", {});
    EXPECT_THAT(test::refusal([&] { lost.restore(json::parse(bad)); }),
                HasSubstr("failed samples are damaged"))
        << bad;
    EXPECT_EQ(lost.failed(), 0);
  }
}

}  // namespace
}  // namespace kinora::core
