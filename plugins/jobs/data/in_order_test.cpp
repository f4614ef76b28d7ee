#include "plugins/jobs/data/in_order.hpp"

#include <atomic>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::data {
namespace {

using Numbers = std::vector<size_t>;

TEST(InOrder, GivesThePiecesOfEachShardInOrder) {
  for (const size_t threads : {1, 3, 16}) {
    InOrder<size_t> work(50, threads);
    std::vector<Numbers> got(50);
    size_t last = 0;
    work.run(
        [&](size_t shard, const InOrder<size_t>::Push& push) {
          for (size_t i = 0; i < shard % 20; ++i) EXPECT_TRUE(push(i));
        },
        [&](size_t shard, size_t piece) {
          EXPECT_GE(shard, last);
          last = shard;
          got[shard].push_back(piece);
        });
    for (size_t shard = 0; shard < 50; ++shard) {
      ASSERT_EQ(got[shard].size(), shard % 20);
      for (size_t i = 0; i < got[shard].size(); ++i) EXPECT_EQ(got[shard][i], i);
    }
  }
}

TEST(InOrder, BoundsThePiecesThatWait) {
  std::atomic<int> waiting = 0, most = 0;
  InOrder<int> work(40, 4);
  work.run(
      [&](size_t, const InOrder<int>::Push& push) {
        for (int i = 0; i < 100; ++i) {
          int now = ++waiting, before = most;
          while (now > before && !most.compare_exchange_weak(before, now)) {
          }
          push(i);
        }
      },
      [&](size_t, int) { --waiting; });
  EXPECT_LE(most, 4 * 4 + 4 + 4 + 1)
      << "pieces of all threads, of the first shard, one in each thread and one consumed";
  EXPECT_EQ(waiting, 0);
}

TEST(InOrder, ThrowsAfterThePiecesBefore) {
  Numbers got;
  InOrder<size_t> work(9, 3);
  const auto run = [&] {
    work.run(
        [&](size_t shard, const InOrder<size_t>::Push& push) {
          push(shard);
          if (shard == 4) throw std::runtime_error("of shard 4");
        },
        [&](size_t, size_t piece) { got.push_back(piece); });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ(got, (Numbers{0, 1, 2, 3, 4}));
}

TEST(InOrder, StopsWhenTheConsumerThrows) {
  std::atomic<bool> was_stopped = false;
  InOrder<int> work(3, 3);
  const auto run = [&] {
    work.run(
        [&](size_t, const InOrder<int>::Push& push) {
          while (push(0)) {
          }
          was_stopped = true;
        },
        [&](size_t, int) { throw std::runtime_error("enough"); });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_TRUE(was_stopped);
}

}  // namespace
}  // namespace kinora::data
