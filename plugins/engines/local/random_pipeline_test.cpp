// Random graphs of random stages against what a single thread would see.
#include "plugins/engines/local/random_testing.hpp"

namespace kinora::local {
namespace {

// Against what a single thread would see: the multiset of outcomes, and the order before ordered stages.
class RandomPipeline : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomPipeline, EndsEverythingOnceAndInOrder) {
  std::mt19937 random(GetParam());
  Pipeline p;
  p.threads = 1 + static_cast<int32_t>(random() % 6);
  p.memory = std::array<uint64_t, 4>{0, 1, 20000, 200000}[random() % 4];
  p.options.queue = 1 + random() % 8;
  p.options.backoff = 0.0001;
  RandomStages stages;
  add_random_stages(p, random, stages, [](size_t h) { return h % 7 == 0 ? static_cast<int>(h / 7 % 3) : 0; });
  p.inputs(60, random() % 3 * 4000);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(testing::TestSample::alive, 0);
  std::map<std::string, int> parents_told;
  for (const auto& [key, o] : p.outcomes) ++parents_told[key];
  for (int i = 0; i < 60; ++i) EXPECT_GE(parents_told[std::to_string(i)], 1) << i;
  if (!stages.graph) {  // a copy for a further branch is a separate sample, too
    EXPECT_EQ(p.outcomes.size(), 60u + stages.born.size());
  }
  const auto first = stages.orders;
  const auto outcomes = p.outcomes.size();
  p.outcomes.clear();
  for (auto& order : stages.orders) order.clear();
  p.threads = 1;
  p.memory = 0;
  p.inputs(60, 0);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), outcomes);
  EXPECT_EQ(stages.orders, first);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPipeline, ::testing::Range(0u, 16u));

// The number of a run determines only threads, memory and the time of each task.
class TenRuns : public ::testing::TestWithParam<uint32_t> {};

TEST_P(TenRuns, EndTheSameWhateverTheThreadsTheMemoryAndTheTimes) {
  Ends ends;
  std::deque<std::vector<std::string>> orders;
  for (uint32_t number = 0; number < 10; ++number) {
    std::mt19937 random(GetParam());
    Pipeline p;
    p.threads = std::array{1, 2, 3, 4, 8}[number % 5];
    p.memory = std::array<uint64_t, 3>{0, 20000, 1}[number % 3];
    p.options.queue = 1 + 7 * (number % 2);
    p.options.backoff = 0.0001;
    RandomStages stages;
    std::atomic<size_t> calls{number};
    add_random_stages(p, random, stages, [&calls, number](size_t h) {
      return static_cast<int>(std::hash<std::string>{}(std::to_string(h + number + ++calls)) % 16 / 13);
    });
    p.inputs(50, 3000);
    ASSERT_EQ(p.run(), "");
    if (number == 0) ends = ends_of(p), orders = stages.orders;
    EXPECT_EQ(ends_of(p), ends) << "run " << number;
    EXPECT_EQ(stages.orders, orders) << "run " << number;
  }
  EXPECT_GE(ends.size(), 50u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TenRuns, ::testing::Range(100u, 108u));

}  // namespace
}  // namespace kinora::local
