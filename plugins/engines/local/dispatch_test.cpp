// Compares cores shared by all stages with cores that the balancer assigns to stages: the reason for the
// choice in scheduler.hpp.
#include "plugins/engines/common/balance/place.hpp"
#include "plugins/engines/local/engine_testing.hpp"

namespace kinora::local {
namespace {

using Times = std::vector<int>;  // milliseconds of each stage

std::vector<int64_t> allocation(const Times& times, int32_t cores) {
  std::vector<balance::Stage> stages(times.size());
  for (uint32_t i = 0; i < stages.size(); ++i) {
    stages[i].seconds = times[i];
    if (i > 0) stages[i].from = {i - 1};
  }
  return balance::place(stages, {balance::Node{static_cast<double>(cores), 1e6}}).workers;
}

// Seconds of a chain over n inputs. times: of the k-th input. workers: of each stage; empty: shared
// cores.
double seconds_of(int64_t n, const std::function<Times(int64_t)>& times,
                  const std::vector<int64_t>& workers) {
  Pipeline p;
  p.threads = 8;
  p.options.queue = 16;
  for (uint32_t i = 0; i < times(0).size(); ++i) {
    auto& act =
        p.add("s" + std::to_string(i), i == 0 ? std::vector<uint32_t>{} : std::vector<uint32_t>{i - 1},
              [&times, i](Sample in, const Emit& emit, const kinora::Run&) {
                sleep_ms(times(std::stoll(std::string(in.key())))[i]);
                emit(std::move(in));
              });
    if (!workers.empty()) act.workers = workers[i];
  }
  p.inputs(n);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(p.run(), "");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of three, alternating: other load on the machine only adds time.
struct Compared {
  double shared = 1e9, given = 1e9;
  template <class Shared, class Given>
  Compared(Shared&& a, Given&& b) {
    for (int i = 0; i < 3; ++i) shared = std::min(shared, a()), given = std::min(given, b());
  }
};

TEST(Dispatch, IsAsFastAsTheBalancersAllocationWhereTimesAreConstant) {
  const Times times{4, 12, 16};
  const auto given = allocation(times, 8);
  ASSERT_EQ(given, (std::vector<int64_t>{1, 3, 4}));
  const auto always = [&](int64_t) { return times; };
  const Compared c([&] { return seconds_of(160, always, {}); },
                   [&] { return seconds_of(160, always, given); });
  std::printf("constant: shared %.3f s, given %.3f s\n", c.shared, c.given);
  EXPECT_LE(c.shared, 1.1 * c.given);
}

TEST(Dispatch, IsFasterThanAnAllocationThatDoesNotDivideEvenly) {
  const Times times{10, 14, 12};  // 8 cores: 2.2, 3.1 and 2.7 of them
  const auto always = [&](int64_t) { return times; };
  const auto given = allocation(times, 8);
  const Compared c([&] { return seconds_of(160, always, {}); },
                   [&] { return seconds_of(160, always, given); });
  std::printf("uneven: shared %.3f s, given %.3f s\n", c.shared, c.given);
  EXPECT_LE(c.shared, 0.97 * c.given);
}

// The first half of the inputs has its work at the last stage, the other half at the first.
TEST(Dispatch, FollowsDriftAsFastAsAllocationsThatAreMadeAnewForFree) {
  const Times early{4, 12, 16}, late{16, 12, 4}, mean{10, 12, 10};
  const auto drifting = [&](int64_t k) { return k < 100 ? early : late; };
  const auto given = allocation(mean, 8);
  const Compared c([&] { return seconds_of(200, drifting, {}); },
                   [&] { return seconds_of(200, drifting, given); });
  const Compared anew([&] { return seconds_of(200, drifting, {}); },
                      [&] {
                        return seconds_of(
                                   100, [&](int64_t) { return early; }, allocation(early, 8)) +
                               seconds_of(
                                   100, [&](int64_t) { return late; }, allocation(late, 8));
                      });
  std::printf("drifting: shared %.3f s, assigned once %.3f s, reassigned %.3f s\n", c.shared, c.given,
              anew.given);
  EXPECT_LE(c.shared, 0.9 * c.given);
  EXPECT_LE(anew.shared, 1.05 * anew.given);
}

}  // namespace
}  // namespace kinora::local
