#include "plugins/jobs/inference/turns.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "plugins/jobs/media/decode_thread.hpp"

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

// The threads of Session::make_rest, which itself needs libtorch: each session denoises by turns, and another thread
// decodes by turns of their own and takes the frames. The data that the turns guard have no lock, so that the thread
// sanitizer reports an access without a turn.
TEST(Turns, AreTakenBySessionsAndByTheThreadsThatDecodeForThem) {
  constexpr int kSessions = 3, kChunks = 100, kFails = 40;
  Turns turns, coding_turns;
  int denoised = 0, decoded = 0;
  std::vector<std::vector<int>> taken(kSessions);
  {
    std::vector<std::jthread> threads;
    for (int s = 0; s < kSessions; ++s)
      threads.emplace_back([&, s] {
        std::vector<int>& frames = taken[static_cast<size_t>(s)];
        DecodeThread<int> decoding([&, s](int chunk) {
          {
            const std::scoped_lock turn(coding_turns);
            ++decoded;
            if (s == 0 && chunk == kFails) throw Error(KINORA_ERROR_IO, "the disk is full");
          }
          frames.push_back(chunk);
        });
        try {
          for (int chunk = 0; chunk < kChunks; ++chunk) {
            {
              const std::scoped_lock turn(turns);
              ++denoised;
            }
            decoding.push(chunk);
          }
          decoding.finish();
          EXPECT_NE(s, 0) << "its error is lost";
        } catch (const Error& e) {
          EXPECT_EQ(s, 0) << e.what();
        }
      });
  }
  EXPECT_EQ(taken[0].size(), static_cast<size_t>(kFails));
  for (int s = 1; s < kSessions; ++s)
    EXPECT_EQ(taken[static_cast<size_t>(s)].size(), static_cast<size_t>(kChunks));
  EXPECT_EQ(decoded, kFails + 1 + (kSessions - 1) * kChunks);
  EXPECT_GE(denoised, kFails + 1 + (kSessions - 1) * kChunks);
  EXPECT_EQ(turns.waiting() + coding_turns.waiting(), 0U);
}

}  // namespace
}  // namespace kinora::core::inference
