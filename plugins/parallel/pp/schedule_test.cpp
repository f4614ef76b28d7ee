// Schedules and the balance of stages, without a model.
#include "plugins/parallel/pp/schedule.hpp"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "tests/support/worst.hpp"

namespace kinora::pp {
namespace {

struct Outcome {
  int64_t rounds = 0;              // until all ranks have finished, for forwards and backwards of length 1
  std::vector<int64_t> in_flight;  // for each rank: most graphs at once
};

// Ranks wait for what they receive and never for what they send. Throws on a deadlock.
Outcome played(const std::string& name, int64_t P, int64_t V, int64_t m) {
  std::vector<std::vector<Action>> all;
  for (int64_t r = 0; r < P; ++r) all.push_back(schedule(name, {P, r, V}, m));
  std::vector<size_t> at(all.size());
  std::vector<int64_t> alive(all.size());
  Outcome out{0, std::vector<int64_t>(all.size())};
  std::set<std::pair<int64_t, int64_t>> forwards, backwards;  // finished: stage, microbatch
  const auto can = [&](const Action& a) {
    if (a.forward) return a.stage == 0 || forwards.count({a.stage - 1, a.micro}) > 0;
    return forwards.count({a.stage, a.micro}) > 0 &&
           (a.stage + 1 == P * V || backwards.count({a.stage + 1, a.micro}) > 0);
  };
  for (bool more = true; more; ++out.rounds) {
    std::vector<Action> now;
    more = false;
    for (size_t r = 0; r < all.size(); ++r) {
      if (at[r] == all[r].size()) continue;
      more = true;
      const Action a = all[r][at[r]];
      if (!can(a)) continue;
      now.push_back(a);
      ++at[r];
      alive[r] += a.forward ? 1 : -1;
      out.in_flight[r] = std::max<int64_t>(out.in_flight[r], alive[r]);
    }
    if (!more) break;
    if (now.empty()) throw std::runtime_error(name + ": every rank waits");
    for (const auto& a : now)
      if (!(a.forward ? forwards : backwards).insert({a.stage, a.micro}).second)
        throw std::runtime_error("done twice");
  }
  if (static_cast<int64_t>(forwards.size()) != P * V * m || backwards != forwards)
    throw std::runtime_error("left undone");
  return out;
}

TEST(Schedule, RunsEveryMicrobatchOnceAndNeverLocks) {
  for (const int64_t P : {1, 2, 3, 4, 8})
    for (const int64_t m : {1, 2, 3, 4, 5, 8, 16, 24}) {
      for (const char* name : {"gpipe", "1f1b"}) EXPECT_NO_THROW(played(name, P, 1, m)) << P << " " << m;
      if (m % P != 0) continue;
      for (const int64_t V : {2, 3, 4})
        EXPECT_NO_THROW(played("interleaved", P, V, m)) << P << " " << V << " " << m;
    }
}

TEST(Schedule, WaitsAsLongAsItsPaperSays) {
  for (const int64_t P : {2, 4, 8}) {
    const int64_t m = 2 * P;
    for (const char* name : {"gpipe", "1f1b"})
      EXPECT_EQ(played(name, P, 1, m).rounds, 2 * m + 2 * (P - 1)) << name << P;
    for (const int64_t V : {2, 4})
      EXPECT_EQ(played("interleaved", P, V, m).rounds, 2 * V * m + 2 * (P - 1)) << P << V;
  }
}

TEST(Schedule, HoldsAsManyGraphsAsItsPaperSays) {
  for (const int64_t P : {2, 4}) {
    const int64_t m = 4 * P;
    for (int64_t r = 0; r < P; ++r) {
      const auto rank = static_cast<size_t>(r);
      EXPECT_EQ(played("gpipe", P, 1, m).in_flight[rank], m);
      EXPECT_EQ(played("1f1b", P, 1, m).in_flight[rank], P - r);
      EXPECT_EQ(played("interleaved", P, 3, m).in_flight[rank], 2 * (P - r - 1) + 2 * P + 1);
    }
  }
}

TEST(Schedule, InterleavedRefusesWhatIsNoMultipleOfTheRanks) {
  try {
    schedule("interleaved", {4, 0, 2}, 6);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("8 would do"), std::string::npos) << e.what();
  }
}

double worst(const std::vector<double>& cost, const std::vector<int64_t>& first) {
  double out = 0;
  for (size_t s = 0; s < first.size(); ++s) {
    double one = 0;
    const auto end = s + 1 < first.size() ? first[s + 1] : static_cast<int64_t>(cost.size());
    for (int64_t b = first[s]; b < end; ++b) one += cost[static_cast<size_t>(b)];
    out = test::worse(out, one);
  }
  return out;
}

// Compares with all possible splits.
double least(const std::vector<double>& cost, size_t stages, std::vector<int64_t> first = {0}) {
  if (first.size() == stages) return worst(cost, first);
  double out = 1e30;
  for (int64_t b = first.back() + 1; b < static_cast<int64_t>(cost.size()); ++b) {
    auto more = first;
    more.push_back(b);
    out = std::min(out, least(cost, stages, more));
  }
  return out;
}

TEST(Stages, OfTheLeastCostThereCanBe) {
  const std::vector<std::vector<double>> all = {
      {1, 1, 1, 1},          {0.1, 1, 1, 1, 1, 0.3},   {5, 1, 1, 1, 1, 1},
      {1, 1, 1, 9, 1, 1, 1}, {3, 1, 4, 1, 5, 9, 2, 6}, {0, 0, 2, 0}};
  for (const auto& cost : all)
    for (size_t stages = 1; stages <= cost.size(); ++stages) {
      const auto first = balanced(cost, static_cast<int64_t>(stages));
      ASSERT_EQ(first.size(), stages);
      EXPECT_EQ(first[0], 0);
      for (size_t s = 1; s < stages; ++s) EXPECT_LT(first[s - 1], first[s]);
      EXPECT_DOUBLE_EQ(worst(cost, first), least(cost, stages));
    }
  EXPECT_TRUE(balanced({1, 1}, 3).empty());
}

}  // namespace
}  // namespace kinora::pp
