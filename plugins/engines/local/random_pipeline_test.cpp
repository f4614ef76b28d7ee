#include <random>

#include "engine_testing.hpp"

namespace kinora::local {
namespace {

// Random graphs of random stages against what they must give: the multiset of ends that one thread would see.
class RandomPipeline : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomPipeline, EndsEverythingOnceAndInOrder) {
  std::mt19937 random(GetParam());
  Pipeline p;
  p.threads = 1 + static_cast<int32_t>(random() % 6);
  p.memory = std::array<uint64_t, 4>{0, 1, 20000, 200000}[random() % 4];
  p.options.queue = 1 + random() % 8;
  p.options.backoff = 0.0001;
  std::atomic<int64_t> born{0};
  const size_t n = 1 + random() % 5;
  std::deque<std::vector<std::string>> orders;
  for (size_t s = 0; s < n; ++s) {
    std::vector<uint32_t> from;
    for (uint32_t i = 0; i < s; ++i)
      if (random() % 2) from.push_back(i);
    if (from.empty() && s > 0) from.push_back(static_cast<uint32_t>(random() % s));
    const uint32_t salt = random();
    auto& order = orders.emplace_back();
    auto& act = p.add("s" + std::to_string(s), from, nullptr);
    act.ordered = random() % 4 == 0;
    act.cores = std::array<double, 4>{0, 0.3, 1, 2}[random() % 4];
    if (!act.ordered) act.workers = random() % 4;
    act.process = [&born, &act, &order, salt](Sample in, const Emit& emit, const kinora::Run&) {
      if (act.ordered) order.emplace_back(in.key());
      const size_t h = std::hash<std::string>{}(std::string(in.key()) + std::to_string(salt));
      if (h % 7 == 0) sleep_ms(static_cast<int>(h / 7 % 3));
      if (h % 11 == 0) throw Error(h % 2 && !act.ordered ? KINORA_IO : KINORA_DATA, "no");
      if (h % 11 == 1) return emit.drop(std::move(in), "x", 1);
      if (h % 11 == 2) return;
      for (size_t i = 0; i < h % 5 / 2 * 2; ++i) {
        Sample child = in.clone(std::string(in.key()) + "." + std::to_string(i));
        child.set("mp4", std::vector<uint8_t>(h % 9000));
        ++born;
        emit(std::move(child));
      }
      if (h % 3) emit(std::move(in));
    };
  }
  p.inputs(60, random() % 3 * 4000);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(testing::TestSample::alive, 0);
  std::map<std::string, int> parents_told;
  for (const auto& [key, o] : p.outcomes) ++parents_told[key];
  for (int i = 0; i < 60; ++i) EXPECT_GE(parents_told[std::to_string(i)], 1) << i;
  bool graph = false;
  for (size_t s = 0; s < n; ++s) {
    size_t takers = 0;
    for (const auto& act : p.stages) takers += std::count(act.from.begin(), act.from.end(), s);
    graph = graph || takers > 1;
  }
  if (!graph) {  // a copy for a further branch is a sample of its own, too
    EXPECT_EQ(p.outcomes.size(), 60u + static_cast<size_t>(born));
  }
  const std::vector<std::vector<std::string>> first(orders.begin(), orders.end());
  // The same again on one thread: ordered stages must have seen the same in the same order.
  const auto outcomes = p.outcomes.size();
  p.outcomes.clear();
  for (auto& order : orders) order.clear();
  p.threads = 1;
  p.memory = 0;
  p.inputs(60, 0);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), outcomes);
  EXPECT_EQ(std::vector<std::vector<std::string>>(orders.begin(), orders.end()), first);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPipeline, ::testing::Range(0u, 16u));

}  // namespace
}  // namespace kinora::local
