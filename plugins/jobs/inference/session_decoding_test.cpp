// Sessions that are made to their end: chunks are decoded while the next ones are denoised.
#include <atomic>
#include <chrono>
#include <functional>
#include <semaphore>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::inference::decoding {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr int64_t kSteps = 2;

struct Opened {
  explicit Opened(int64_t chunks, int64_t chunk = 1)
      : small(kDeepDit, kSteps, kStreaming),
        parallel(test::runtime(), PlainPipeline::plan(*small.run)),
        pipeline(test::runtime(), small.spec(in_chunks(chunk), chunks * chunk), parallel) {}
  static Request request() { return {.seed = 2, .prompt = "red sea"}; }
  std::vector<at::Tensor> one_after_the_other() {
    Session session(pipeline, request());
    std::vector<at::Tensor> out;
    while (const auto frames = session.next_chunk()) out.push_back(*frames);
    latent = session.made().latent;
    return out;
  }
  Small small;
  Parallelism parallel;
  Pipeline pipeline;
  at::Tensor latent;
};

void expect_equal(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want, size_t from = 0) {
  ASSERT_EQ(got.size() + from, want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(at::equal(got[i], want[from + i])) << "chunk " << from + i;
}

bool comes_true(const std::function<bool()>& is_true) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!is_true() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return is_true();
}

// A session on a thread of its own. Its first step waits until the caller has the tokenizer's turn, so that nothing is
// decoded until the caller lets it go.
class Held {
 public:
  explicit Held(Pipeline& pipeline)
      : pipeline_(pipeline), session(pipeline, Opened::request(), {.step = [this](int64_t) {
                                       if (steps++ > 0) return;
                                       reached_.release();
                                       go_.acquire();
                                     }}) {
    thread_ = std::jthread([this] {
      refusal = test::refusal([this] {
        session.make_rest([this](const at::Tensor& frames) {
          where = std::this_thread::get_id();
          chunks.push_back(frames);
        });
      });
    });
    EXPECT_TRUE(reached_.try_acquire_for(20s));
    pipeline_.coding_turns().lock();
    go_.release();
  }
  ~Held() {
    if (is_held_) let_go();
  }
  void let_go() {
    is_held_ = false;
    pipeline_.coding_turns().unlock();
  }
  void join() { thread_.join(); }

 private:
  Pipeline& pipeline_;
  bool is_held_ = true;
  std::binary_semaphore reached_{0}, go_{0};

 public:
  std::atomic<int64_t> steps{0};
  Session session;
  std::vector<at::Tensor> chunks;
  std::string refusal;
  std::thread::id where;

 private:
  std::jthread thread_;
};

TEST(Decoding, RunsWhileTheNextChunksAreDenoisedAndGivesTheSameBytes) {
  const at::NoGradGuard off;
  Opened opened(7);
  const auto want = opened.one_after_the_other();
  Held held(opened.pipeline);
  // One chunk is decoded, two wait, and one waits to be taken.
  EXPECT_TRUE(comes_true([&] { return held.session.state().chunk == 4; })) << held.steps;
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(held.steps, 4 * kSteps) << "the session is not further ahead";
  held.let_go();
  held.join();
  EXPECT_EQ(held.refusal, "nothing was refused");
  expect_equal(held.chunks, want);
  EXPECT_TRUE(at::equal(held.session.made().latent, opened.latent));
  EXPECT_EQ(held.steps, 7 * kSteps);
  EXPECT_NE(held.where, std::this_thread::get_id());
  EXPECT_FALSE(held.session.next_chunk()) << "it is over";
}

// Another thread comes behind the first latent frame of a chunk of four, and cancels before the second.
TEST(Decoding, IsCancelledBetweenTwoLatentFrames) {
  const at::NoGradGuard off;
  Opened opened(2, 4);
  Turns& turns = opened.pipeline.coding_turns();
  Held held(opened.pipeline);
  EXPECT_TRUE(comes_true([&] { return turns.waiting() == 1; })) << "the first latent frame";
  std::jthread behind([&] {
    const std::scoped_lock turn(turns);
    held.session.cancel();
  });
  EXPECT_TRUE(comes_true([&] { return turns.waiting() == 2; }));
  held.let_go();
  held.join();
  EXPECT_THAT(held.refusal, HasSubstr("cancelled"));
  EXPECT_TRUE(held.chunks.empty());
  EXPECT_THAT(test::refusal([&] { held.session.set_prompt("blue"); }), HasSubstr("was cancelled"));
}

TEST(Decoding, ItsErrorEndsTheSession) {
  const at::NoGradGuard off;
  Opened opened(6);
  const auto want = opened.one_after_the_other();
  Session session(opened.pipeline, Opened::request());
  std::vector<at::Tensor> chunks;
  const auto until_full = [&](const at::Tensor& frames) {
    if (chunks.size() == 2) throw Error(KINORA_ERROR_IO, "the disk is full");
    chunks.push_back(frames);
  };
  EXPECT_EQ(test::refusal([&] { session.make_rest(until_full); }), "the disk is full");
  EXPECT_FALSE(session.next_chunk()) << "it is over";
  std::vector<at::Tensor> rest;
  session.branch()->make_rest([&](const at::Tensor& frames) { rest.push_back(frames); });
  expect_equal(rest, want, 2);
  {
    const std::scoped_lock turn(opened.pipeline.coding_turns());
    for (auto& leaf : opened.pipeline.tokenizer().chain().leaves()) leaf.tensor.detach().fill_(NAN);
  }
  Session broken(opened.pipeline, Opened::request());
  EXPECT_THAT(test::refusal([&] { broken.make_rest([](const at::Tensor&) {}); }),
              HasSubstr("decodes pixels that are not finite"));
}

// As of a stream whose viewer has stalled.
TEST(Decoding, AnErrorReachesATakeThatWaits) {
  const at::NoGradGuard off;
  Opened opened(4);
  std::atomic<bool> is_inside{false}, is_told{false};
  int64_t steps = 0;
  Session session(opened.pipeline, Opened::request(), {.step = [&](int64_t) {
                    if (++steps <= kSteps) return;
                    EXPECT_TRUE(comes_true([&] { return is_inside.load(); }));
                    throw Error(KINORA_ERROR_DATA, "the latent is lost");
                  }});
  EXPECT_THAT(test::refusal([&] {
                session.make_rest([&](const at::Tensor&) {
                  is_inside = true;
                  is_told = comes_true([&] { return session.has_ended(); });
                });
              }),
              HasSubstr("the latent is lost"));
  EXPECT_TRUE(is_told);
}

TEST(Decoding, GivesAVideoThatComesAtOnce) {
  const at::NoGradGuard off;
  Small small(kDeepDit, kSteps);  // its tokenizer needs the whole latent
  Parallelism parallel(test::runtime(), PlainPipeline::plan(*small.run));
  Pipeline pipeline(test::runtime(), small.spec(in_chunks(1), 3), parallel);
  Session whole(pipeline, Opened::request()), session(pipeline, Opened::request());
  std::vector<at::Tensor> chunks;
  session.make_rest([&](const at::Tensor& frames) { chunks.push_back(frames); });
  expect_equal(chunks, {*whole.next_chunk()});
}

}  // namespace
}  // namespace kinora::core::inference::decoding
