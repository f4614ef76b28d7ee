#include "gate.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace kinora::endpoint {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}
const Stop kNever = [] {};

TEST(Gate, NeverLetsMoreInThanAtOnceAndAllOfThem) {
  Gate gate({3});
  std::atomic<int> inside{0}, most{0};
  const auto late = Clock::now() + std::chrono::seconds(20);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 12; ++i)
    threads.emplace_back([&] {
      const auto place = gate.enter(kNever);
      const int now = ++inside;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      // The first ones wait for the others, however slowly threads start; a fourth would then have time to
      // enter.
      while (most < 3 && Clock::now() < late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      --inside;
    });
  threads.clear();
  EXPECT_EQ(most, 3);
}

// The k-th of them starts no earlier than k intervals after the first.
TEST(Gate, SpacesRequestsEvenlyWhoeverAsks) {
  Gate gate({8, 1200});  // 20 per second
  std::mutex mutex;
  std::vector<double> at;
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 5; ++k) {
          gate.start(1, kNever);
          const std::lock_guard<std::mutex> lock(mutex);
          at.push_back(seconds(begin));
        }
      });
  }
  std::sort(at.begin(), at.end());
  // A thread may note its start late, never early.
  ASSERT_EQ(at.size(), 20u);
  for (size_t i = 0; i < at.size(); ++i) EXPECT_GE(at[i], 0.05 * static_cast<double>(i) - 0.001) << i;
}

TEST(Gate, CountsTokensAndCorrectsAGuess) {
  Gate gate({1, 0, 60000});  // 1000 per second
  const auto begin = Clock::now();
  gate.start(100, kNever);
  gate.correct(200);  // it took 300: the next may start at 0.3 s
  gate.start(20000, kNever);
  EXPECT_GE(seconds(begin), 0.299);
  gate.correct(-20000);  // the request failed
  gate.start(1, kNever);
  EXPECT_LT(seconds(begin), 15) << "it would wait for 20 s";
}

TEST(Gate, APauseHoldsEverybodyAndAStopEndsIt) {
  Gate gate({2});
  gate.pause(0.2);
  const auto begin = Clock::now();
  gate.start(1, kNever);
  EXPECT_GE(seconds(begin), 0.199);
  gate.pause(60);
  const Stop now = [] { throw std::runtime_error("stop"); };
  EXPECT_THROW(gate.start(1, now), std::runtime_error);
  EXPECT_THROW(gate.sleep(60, now), std::runtime_error);
  const auto one = gate.enter(kNever), two = gate.enter(kNever);
  EXPECT_THROW(gate.enter(now), std::runtime_error);
  EXPECT_LT(seconds(begin), 30) << "the pause is 60 s";
}

}  // namespace
}  // namespace kinora::endpoint
