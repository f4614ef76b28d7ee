// A thousand nodes that one scheduler has, in virtual time: inputs per second by the times at which they ended, against
// what no schedule exceeds.
#include <deque>
#include <numeric>

#include "plugins/engines/common/simulated/simulated_testing.hpp"

namespace kinora::engines::simulated {
namespace {

constexpr double kDay = 86400;

// Of a long film two parts are cut out, looked at, and captioned on a quarter of a GPU. Some take three times as long
// as others.
std::vector<Stage> long_films() {
  std::vector<Stage> out{stage("cut", 2400), stage("look", 60, {0}), stage("caption", 180, {1})};
  out[0].cost.out = 2;
  out[0].deviation = 1200, out[1].deviation = 30, out[2].deviation = 180;
  out[2].cost.need.gpus = 0.25;
  out[2].starting = 60;
  return out;
}

// Such shares of the nodes are lost, and leave, a day; another one comes after an hour.
std::vector<Change> changes_of(const std::vector<balance::Node>& nodes, double lost, double leaves,
                               double seconds, uint64_t seed) {
  const double rate = (lost + leaves) * static_cast<double>(nodes.size()) / kDay;
  std::vector<Change> out;
  std::vector<size_t> up(nodes.size());
  std::iota(up.begin(), up.end(), 0);
  std::deque<double> back;
  size_t next = nodes.size();
  for (double at = -std::log(uniform(seed)) / rate; at < seconds; at -= std::log(uniform(++seed)) / rate) {
    for (; !back.empty() && back.front() <= at; back.pop_front()) up.push_back(next++);
    const auto which = static_cast<size_t>(uniform(mixed(seed)) * static_cast<double>(up.size()));
    const bool is_lost = uniform(mixed(mixed(seed))) < lost / (lost + leaves);
    out.push_back({is_lost ? Change::lost : Change::leaves, at, up[which]});
    up.erase(up.begin() + static_cast<std::ptrdiff_t>(which));
    back.push_back(at + 3600);
    out.push_back({Change::comes, back.back(), 0, nodes.front()});
  }
  return out;
}

// All 24 changes count, and so do the first inputs, for which most cores wait, and the last ones but for the slowest of
// a hundred. With one queue of 64 samples for all nodes (Scheduler::longest_queue) it is 0.7.
TEST(SimulatedThousand, NodesWithOneSchedulerOfWhichTwoPercentFailADayReachTheBound) {
  testing::start();
  constexpr int64_t kInputs = 100000;
  const std::vector<balance::Node> nodes(1000, {4, 64, 1});
  const double bound = most_together(long_films(), nodes);
  EXPECT_NEAR(bound, 4000.0 / (2400 + 2 * (60 + 180)), 1e-3);
  const auto changes = changes_of(nodes, 0.02, 0.01, kInputs / bound, 1);
  EXPECT_EQ(changes.size(), 2 * 24u);
  EXPECT_EQ(
      std::count_if(changes.begin(), changes.end(), [](const auto& c) { return c.what == Change::lost; }),
      16);
  const NodeRun run = run_nodes(long_films(), nodes, changes, kInputs, 1);
  ASSERT_EQ(run.ends.size(), static_cast<size_t>(kInputs));
  const auto until = [&](size_t n) { return static_cast<double>(n) / run.ends[n - 1]; };  // inputs per second
  EXPECT_GE(until(kInputs * 99 / 100), 0.95 * bound);
  for (size_t n = 1000; n <= run.ends.size(); n += 1000)
    EXPECT_LE(until(n), 1.01 * bound) << "chance in what the first " << n << " cost is less";
  EXPECT_GE(run.seconds, run.least * (1 - 1e-6));
}

}  // namespace
}  // namespace kinora::engines::simulated
