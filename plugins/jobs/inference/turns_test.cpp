#include "plugins/jobs/inference/turns.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace kinora::core::inference {
namespace {

TEST(Turns, OneThreadAtATimeHasOne) {
  Turns turns;
  std::atomic<int> inside{0};
  std::atomic<bool> overlap{false};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          const std::scoped_lock turn(turns);
          if (++inside != 1) overlap = true;
          std::this_thread::yield();
          --inside;
        }
      });
  }
  EXPECT_FALSE(overlap);
  EXPECT_EQ(turns.waiting(), 0U);
}

TEST(Turns, AreInTheOrderOfArrival) {
  for (int round = 0; round < 50; ++round) {
    Turns turns;
    std::vector<int> order;
    {
      std::vector<std::jthread> threads;
      turns.lock();
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
          const std::scoped_lock turn(turns);
          order.push_back(t);
        });
        while (turns.waiting() != static_cast<uint64_t>(t) + 1) std::this_thread::yield();
      }
      turns.unlock();
      const std::scoped_lock turn(turns);  // at once, but it came last
      order.push_back(3);
    }
    ASSERT_EQ(order, (std::vector{0, 1, 2, 3}));
  }
}

TEST(Turns, RequireTheThreadThatHasIt) {
  Turns turns;
  EXPECT_THROW(turns.require_mine(), std::logic_error);
  turns.lock();
  EXPECT_NO_THROW(turns.require_mine());
  std::jthread([&] { EXPECT_THROW(turns.require_mine(), std::logic_error); }).join();
  turns.unlock();
  EXPECT_THROW(turns.require_mine(), std::logic_error);
}

}  // namespace
}  // namespace kinora::core::inference
