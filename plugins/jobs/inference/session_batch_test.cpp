// Sessions whose model calls are made together: each video is the one that it is alone.
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/call_batch.hpp"
#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::inference {
namespace session_batch_test {

using testing::HasSubstr;

constexpr int64_t kSteps = 4;

struct Case {
  const char *name, *model, *precision;
  double bound;  // of the difference, relative to the largest number; latents are float32
};

// Different seeds, prompts of different lengths and scales of guidance.
std::vector<Request> requests() {
  std::vector<Request> out(3);
  const char* const prompts[] = {"red sea", "blue", "sea red blue sea"};
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].seed = 5 + i;
    out[i].prompt = prompts[i];
    for (auto& guidance : out[i].guidance) guidance.scale = 1.5 + 0.25 * static_cast<double>(i);
  }
  return out;
}

class SessionBatch : public testing::TestWithParam<Case> {
 protected:
  SessionBatch()
      : small_(GetParam().model, kSteps, "", GetParam().precision),
        parallel_(test::runtime(), PlainPipeline::plan(*small_.run)),
        pipeline_(test::runtime(), small_.spec({}, 3, nullptr), parallel_) {}

  at::Tensor alone(const Request& request) {
    Session session(pipeline_, request);
    while (session.next_chunk()) {
    }
    calls_ = session.made().model_calls;
    return session.made().latent;
  }
  struct Made {
    at::Tensor latent;
    int64_t calls = 0, steps = 0;
    std::string refusal;
  };
  // cancelled: number of the one that is cancelled after its first step.
  std::vector<Made> together(const std::vector<Request>& all, size_t cancelled = SIZE_MAX) {
    std::vector<Made> out(all.size());
    CallBatch batch(pipeline_.turns(), all.size());
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < all.size(); ++i)
        threads.emplace_back([&, i] {
          BatchedVideo batched(batch);
          Session session(pipeline_, all[i],
                          {.step =
                               [&](int64_t done) {
                                 out[i].steps = done;
                                 if (i == cancelled) session.cancel();
                               },
                           .batched = &batched});
          out[i].refusal = test::refusal([&] {
            while (session.next_chunk()) {
            }
          });
          out[i].latent = session.made().latent;
          out[i].calls = session.made().model_calls;
        });
    }
    shared_ = batch.shared();
    return out;
  }

  Small small_;
  Parallelism parallel_;
  Pipeline pipeline_;
  int64_t calls_ = 0, shared_ = 0;
};

TEST_P(SessionBatch, OfThreeEqualsThreeAlone) {
  const auto all = requests();
  std::vector<at::Tensor> one_by_one;
  for (const auto& request : all) one_by_one.push_back(alone(request));
  EXPECT_GT(apart(one_by_one[0], one_by_one[1]), 0.01) << "equal videos would prove nothing";
  const auto made = together(all);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(made[i].refusal, "nothing was refused");
    ASSERT_TRUE(made[i].latent.defined()) << i;
    EXPECT_LT(apart(made[i].latent, one_by_one[i]), GetParam().bound) << i;
    EXPECT_EQ(made[i].calls, calls_);
    EXPECT_EQ(made[i].steps, kSteps);
  }
  EXPECT_GE(calls_, 2 * kSteps) << "with the prompt and without it";
  EXPECT_EQ(shared_, calls_) << "all calls are made together";
}

TEST_P(SessionBatch, OneThatIsCancelledLeavesTheOthers) {
  const auto all = requests();
  const auto made = together(all, 1);
  EXPECT_THAT(made[1].refusal, HasSubstr("cancelled"));
  EXPECT_EQ(made[1].steps, 1);
  for (const size_t i : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(made[i].refusal, "nothing was refused");
    const at::Tensor expected = alone(all[i]);
    ASSERT_TRUE(made[i].latent.defined()) << i;
    EXPECT_LT(apart(made[i].latent, expected), GetParam().bound) << i;
  }
  EXPECT_EQ(shared_, calls_) << "the two go on together";
}

INSTANTIATE_TEST_SUITE_P(Of, SessionBatch,
                         testing::Values(Case{"Dit", kDeepDit, "fp64", 1e-6},
                                         Case{"DitInFloat32", kDeepDit, "fp32", 1e-5},
                                         Case{"Wan", kWan, "fp64", 1e-6},
                                         Case{"WanInFloat32", kWan, "fp32", 1e-5}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace session_batch_test
}  // namespace kinora::core::inference
