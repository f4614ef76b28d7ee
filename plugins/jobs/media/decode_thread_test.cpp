// The thread sanitizer runs these tests too.
#include "plugins/jobs/media/decode_thread.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"

namespace kinora::core::inference {
namespace {

using namespace std::chrono_literals;
using Chunks = DecodeThread<std::unique_ptr<int>>;
using test::refusal;

std::unique_ptr<int> chunk(int number) { return std::make_unique<int>(number); }

// A handler that waits until it is let go.
class Gate {
 public:
  void wait() {
    ++inside_;
    opened_.wait();
  }
  void open() { promise_.set_value(); }
  void await_arrival() const {
    while (inside_ == 0) std::this_thread::yield();
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_{promise_.get_future()};
  std::atomic<int> inside_{0};
};

TEST(DecodeThread, HandlesEveryChunkInOrderOnItsThread) {
  std::vector<int> handled, expected;
  std::thread::id where;
  Chunks chunks([&](std::unique_ptr<int> one) {
    handled.push_back(*one);
    where = std::this_thread::get_id();
  });
  for (int i = 0; i < 200; ++i) {
    chunks.push(chunk(i));
    expected.push_back(i);
  }
  chunks.finish();
  EXPECT_EQ(handled, expected);
  EXPECT_NE(where, std::this_thread::get_id());
  chunks.finish();
  EXPECT_EQ(refusal([&] { chunks.push(chunk(1)); }), "a chunk behind the end of its video");
}

TEST(DecodeThread, TheProducerIsAtMostTwoWaitingChunksAhead) {
  Gate gate;
  std::atomic<int> pushed{0};
  Chunks chunks([&](std::unique_ptr<int>) { gate.wait(); });
  std::jthread producer([&] {
    for (int i = 0; i < 6; ++i) {
      chunks.push(chunk(i));
      ++pushed;
    }
    chunks.finish();
  });
  gate.await_arrival();
  while (pushed < 3) std::this_thread::yield();  // one is handled, two wait
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(pushed, 3);
  gate.open();
  producer.join();
  EXPECT_EQ(pushed, 6);
}

TEST(DecodeThread, AnErrorReachesTheProducerAndDropsWhatWaits) {
  Gate gate;
  std::atomic<int> handled{0};
  Chunks chunks([&](std::unique_ptr<int>) {
    ++handled;
    gate.wait();
    throw Error(KINORA_ERROR_IO, "the disk is full");
  });
  for (int i = 0; i < 3; ++i) chunks.push(chunk(i));
  std::jthread opener([&] {
    std::this_thread::sleep_for(10ms);
    gate.open();
  });
  EXPECT_EQ(refusal([&] { chunks.push(chunk(3)); }), "the disk is full");  // which waited for room
  EXPECT_EQ(refusal([&] { chunks.push(chunk(4)); }), "the disk is full");
  EXPECT_EQ(refusal([&] { chunks.finish(); }), "the disk is full");
  EXPECT_EQ(handled, 1);
}

TEST(DecodeThread, AnErrorOfTheLastChunkIsThrownByFinish) {
  Chunks chunks([](std::unique_ptr<int>) { throw Error(KINORA_ERROR_IO, "the disk is full"); });
  chunks.push(chunk(0));
  EXPECT_EQ(refusal([&] { chunks.finish(); }), "the disk is full");
  EXPECT_EQ(refusal([&] { chunks.push(chunk(1)); }), "the disk is full");
}

TEST(DecodeThread, CancelWakesTheProducerAndDropsWhatWaits) {
  Gate gate;
  std::atomic<int> handled{0};
  Chunks chunks([&](std::unique_ptr<int>) {
    ++handled;
    gate.wait();
  });
  for (int i = 0; i < 3; ++i) chunks.push(chunk(i));
  std::jthread canceller([&] {
    std::this_thread::sleep_for(10ms);
    chunks.cancel();
  });
  EXPECT_EQ(refusal([&] { chunks.push(chunk(3)); }), "cancelled");  // which waited for room
  EXPECT_TRUE(chunks.is_cancelled());
  gate.open();
  EXPECT_EQ(refusal([&] { chunks.finish(); }), "cancelled");
  EXPECT_EQ(handled, 1);
}

TEST(DecodeThread, IsDestroyedAtAnyMoment) {
  {
    const Chunks unused([](std::unique_ptr<int>) {});
  }
  for (int round = 0; round < 50; ++round) {
    Chunks chunks([](std::unique_ptr<int>) { std::this_thread::yield(); });
    for (int i = 0; i < round % 5; ++i) chunks.push(chunk(i));
  }
  Chunks failed([](std::unique_ptr<int>) { throw std::bad_alloc(); });
  failed.push(chunk(0));
}

TEST(DecodeThread, AHandlerThatWaitsCanSeeThatItIsCancelled) {
  Chunks* self = nullptr;
  std::atomic<bool> is_inside{false};
  auto chunks = std::make_unique<Chunks>([&](std::unique_ptr<int>) {
    is_inside = true;
    while (!self->is_cancelled()) std::this_thread::yield();
  });
  self = chunks.get();
  chunks->push(chunk(0));
  while (!is_inside) std::this_thread::yield();
  delete chunks.release();  // unique_ptr's reset would clear the pointer first
}

}  // namespace
}  // namespace kinora::core::inference
