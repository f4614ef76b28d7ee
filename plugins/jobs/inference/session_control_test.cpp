// The part of a session that any thread may use. The thread sanitizer runs these tests too.
#include "plugins/jobs/inference/session_control.hpp"

#include <atomic>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.hpp"

namespace kinora::core::inference {
namespace {

using testing::HasSubstr;

// Chunk n has 10 * (n + 1) steps, so that a state whose members are of two chunks shows.
bool is_of_one_moment(const SessionControl::State& state) {
  const int64_t steps = state.steps / 10;
  return state.step <= state.steps && state.chunk <= state.chunks &&
         (steps == state.chunk + 1 || (steps == state.chunk && state.step == state.steps));
}

TEST(SessionControl, BeginsWithAnotherPromptUnlessOneWasSet) {
  SessionControl plain("server", 0, "red"), told("server", 0, "red"), branch("server", 0, "red");
  plain.begin_with("blue");
  EXPECT_EQ(plain.begin_chunk(2, 1)->prompt, "blue");
  told.set_prompt("sea");
  told.begin_with("blue");
  branch.continue_from(told, 0);
  branch.begin_with("blue");
  for (SessionControl* one : {&told, &branch}) EXPECT_EQ(one->begin_chunk(2, 1)->prompt, "sea");
}

TEST(SessionControl, HasEndedOnceItWasCancelledOrHasFailed) {
  SessionControl cancelled("server", 0, "red"), failed("server", 0, "red");
  EXPECT_FALSE(cancelled.has_ended());
  cancelled.cancel();
  failed.fail(false);
  EXPECT_TRUE(cancelled.has_ended());
  EXPECT_TRUE(failed.has_ended());
  cancelled.begin_with("blue");  // the video's next step ends it
}

TEST(SessionControl, IsReadAndSteeredWhileAVideoIsMade) {
  constexpr int64_t kChunks = 60;
  SessionControl control("server", 3, "red sea");
  std::atomic<bool> is_done{false};
  std::atomic<int> accepted{0}, torn{0};
  int64_t prompts = 0;
  {
    std::vector<std::jthread> others;
    others.emplace_back([&] {
      while (!is_done) torn += is_of_one_moment(control.state()) ? 0 : 1;
    });
    others.emplace_back([&] {
      while (test::refusal([&] { control.set_prompt("blue"); }) == "nothing was refused") ++accepted;
      control.cancel();
    });
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      if (const auto shot = control.begin_chunk(kChunks - chunk, 10 * (chunk + 1))) {
        EXPECT_TRUE(shot->prompt == "blue" || (chunk == 0 && shot->prompt == "red sea")) << shot->prompt;
        ++prompts;
        std::this_thread::yield();
      }
      for (int64_t step = 1; step <= 10 * (chunk + 1); ++step) control.note_step(step);
      control.end_chunk();
    }
    while (!control.is_cancelled()) std::this_thread::yield();
    is_done = true;
  }
  EXPECT_EQ(torn, 0);
  EXPECT_GE(prompts, 1);
  EXPECT_EQ(control.state().chunk, kChunks);
}

TEST(SessionControl, TakesNoPromptAfterTheLastChunkHasBegun) {
  SessionControl control("server", 3, "red sea");
  EXPECT_EQ(control.begin_chunk(2, 5)->prompt, "red sea");
  control.set_prompt("sea");
  control.set_prompt("blue");
  control.end_chunk();
  EXPECT_EQ(control.begin_chunk(1, 5)->prompt, "blue") << "the later one";
  EXPECT_THAT(
      test::refusal([&] { control.set_prompt("sea"); }),
      HasSubstr("server: a prompt acts from the next chunk on, and the last of 2 of video 003 has begun"));
}

// Makes this many chunks and says what acted before each.
std::vector<std::string> acted(SessionControl& control, int64_t chunks) {
  std::vector<std::string> out;
  for (int64_t left = chunks; left > 0; --left) {
    const auto shot = control.begin_chunk(left, 5);
    out.push_back(shot ? shot->prompt : "-");
    control.end_chunk();
  }
  return out;
}

TEST(SessionControl, KeepsThePromptsOfRewoundChunksUntilItTakesAnother) {
  using testing::ElementsAre;
  SessionControl control("server", 3, "red sea");
  control.begin_chunk(4, 5);
  control.end_chunk();
  control.set_prompt("blue");
  EXPECT_THAT(acted(control, 3), ElementsAre("blue", "-", "-"));
  control.rewind(1);
  const auto state = control.state();
  EXPECT_EQ(std::tuple(state.chunk, state.chunks, state.step), std::tuple(1, 4, 0));
  EXPECT_THAT(acted(control, 3), ElementsAre("blue", "-", "-"));
  control.rewind(0);
  SessionControl branch("server", 3, "another");
  branch.continue_from(control, 0);
  control.set_prompt("sea");
  EXPECT_THAT(acted(control, 4), ElementsAre("sea", "-", "-", "-"));
  EXPECT_THAT(acted(branch, 4), ElementsAre("red sea", "blue", "-", "-"));
  EXPECT_EQ(branch.shot_of(1)->prompt, "blue");
  EXPECT_FALSE(branch.shot_of(2));
  EXPECT_THAT(test::refusal([&] { control.rewind(4); }),
              HasSubstr("server: chunk 4 of video 003 is not finished, so it is not made again; finished "
                        "chunks: 4, counted from 0"));
  control.fail(false);
  EXPECT_THAT(test::refusal([&] { control.rewind(1); }),
              HasSubstr("server: video 003 has failed, so it is not rewound; rewind a branch of it"));
  branch.continue_from(control, 3);
  EXPECT_EQ(branch.state().chunk, 3);
}

TEST(SessionControl, TakesNoPromptOnceCancelledOrFailed) {
  SessionControl cancelled("server", 3, "red sea"), stopped("server", 3, "red sea"),
      failed("server", 3, "red sea");
  cancelled.cancel();
  stopped.fail(true);
  failed.fail(false);
  const auto refusal = [](SessionControl& control) {
    return test::refusal([&] { control.set_prompt("blue"); });
  };
  EXPECT_THAT(refusal(cancelled), HasSubstr("server: video 003 was cancelled, so no chunk follows"));
  EXPECT_EQ(refusal(stopped), refusal(cancelled));
  EXPECT_THAT(refusal(failed), HasSubstr("server: video 003 has failed, so no chunk follows"));
  EXPECT_FALSE(failed.is_cancelled());
}

}  // namespace
}  // namespace kinora::core::inference
