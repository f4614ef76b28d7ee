// Shots: how they are read, what a cut changes, and what becomes of the keys and values of an earlier prompt.
#include "plugins/jobs/inference/shots.hpp"

#include <random>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::inference {
namespace {

using testing::HasSubstr;

std::string shot(const std::string& prompt, int64_t chunks, bool cuts = true,
                 const std::string& change = "none") {
  return json{{"prompt", prompt}, {"chunks", chunks}, {"cut", cuts}, {"switch", change}}.dump();
}

TEST(Shots, AreReadFromTheirTexts) {
  const auto shots =
      shots_of({R"({"prompt": "a", "seconds": 1.5})",
                R"({"prompt": "b", "chunks": 2, "cut": false, "switch": "blend", "blend": 3})"});
  const ShotList list(shots, {Frames::Pin::own, 8}, 16, {2}, 4);
  EXPECT_EQ(list.chunks(), 5) << "24 frames are three chunks of 8";
  EXPECT_EQ(list.beginning_at(3)->prompt, "b");
  EXPECT_EQ(list.beginning_at(3)->blend, 3);
  EXPECT_EQ(list.beginning_at(2), nullptr);
  EXPECT_EQ(list.begin_of(4), 3);
  EXPECT_EQ(list.last_cut(4), 0) << "the second shot is no cut";
  for (const auto& [text, message] :
       {std::pair{"[]", "shot 1: expected a table"},
        {R"({"seconds": 2})", "prompt is missing"},
        {R"({"prompt": "a"})", "give its length"},
        {R"({"prompt": "a", "chunks": 1, "seconds": 1})", "give its length"},
        {R"({"prompt": "a", "chunks": 1.5})", "'chunks' takes a whole number"},
        {R"({"prompt": "a", "chunks": 0})", "'chunks' takes a number from 1 on"},
        {R"({"prompt": "a", "seconds": -1})", "'seconds' takes a number from 0 on"},
        {R"({"prompt": "a", "chunks": 1, "switch": "cut"})", "none, recache, blend and flush"},
        {R"({"prompt": "a", "chunks": 1, "length": 2})", "'length' is unknown"}})
    EXPECT_THAT(test::refusal([&] { shots_of({text}); }), HasSubstr(message)) << text;
}

TEST(Shots, KeepTheFirstChunkOfACut) {
  const auto shots = shots_of({shot("a", 2), shot("a", 1), shot("a", 1, false), shot("a", 1), shot("a", 1)});
  const auto pinned = [&](Frames::Pin pin) {
    std::vector<std::set<int64_t>> out;
    for (int64_t chunk = 0; chunk < 6; ++chunk)
      out.push_back(ShotList(shots, {pin, 8}, 8, {2}, 2).pinned_at(chunk));
    return out;
  };
  using Cuts = std::set<int64_t>;
  EXPECT_THAT(pinned(Frames::Pin::own),
              testing::ElementsAre(Cuts{}, Cuts{}, Cuts{2}, Cuts{2}, Cuts{4}, Cuts{5}));
  EXPECT_THAT(pinned(Frames::Pin::before),
              testing::ElementsAre(Cuts{}, Cuts{}, Cuts{2}, Cuts{2}, Cuts{2, 4}, Cuts{4, 5}));
  EXPECT_THAT(pinned(Frames::Pin::none), testing::Each(Cuts{}));
}

TEST(Shots, CutsMoveTheFramesBehindThemInTime) {
  const ShotList list(shots_of({shot("a", 2), shot("a", 1), shot("a", 1, false), shot("a", 2)}),
                      {Frames::Pin::own, 8}, 8, {2}, 2);
  Frames rule;
  rule.chunk = 2;
  const Frames at = list.at(rule, 2, 8);
  EXPECT_EQ(at.start, 2);
  EXPECT_THAT(at.cuts, testing::ElementsAre(2, 4));
  EXPECT_THAT(at.times, testing::ElementsAre(2, 3, 12, 13, 14, 15, 24, 25));
  EXPECT_THAT(list.cuts(), testing::ElementsAre(1 + 3 * 2, 1 + 7 * 2)) << "latent frames 4 and 8";
}

// Chunks of 2 latent frames, the first of 1; a latent frame is 4 frames.
TEST(Shots, CountTheLengthOfTheFirstChunk) {
  const ShotList list(shots_of({R"({"prompt": "a", "seconds": 1.25})", R"({"prompt": "b", "seconds": 1})"}),
                      {Frames::Pin::own, 8}, 16, {2, 1}, 4);
  EXPECT_EQ(list.begin_of(4), 3) << "20 frames are 4, 8 and 8";
  EXPECT_EQ(list.chunks(), 5) << "16 frames are 8 and 8";
  EXPECT_EQ(list.frames(), 1 + 4 * 2);
  EXPECT_EQ(list.described()[1]["frame"], 1 + (1 + 2 + 2 - 1) * 4);
  EXPECT_THAT(list.at({.chunk = 2, .first_chunk = 1}, 3, 4).times, testing::ElementsAre(3, 4, 13, 14));
}

TEST(ShotVideo, OnACacheIsMaskedAttentionOverAllFrames) {
  const at::NoGradGuard off;
  std::mt19937 random(3);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  Small small(kDeepDit, 2);
  for (int64_t round = 0; round < rounds(40); ++round) {
    Request request{.seed = 2, .prompt = "red sea"};
    const int64_t all = draw(2, 7);
    for (int64_t left = all; left > 0;) {
      const int64_t chunks = draw(1, left);
      request.shots.push_back(shot("red sea", chunks, draw(0, 3) > 0));
      left -= chunks;
    }
    small.shots = {static_cast<Frames::Pin>(draw(0, 2)), draw(0, 8)};
    const int64_t window = draw(0, 3);
    FrameOptions rule = in_chunks(draw(1, 2), window, window > 0 ? draw(0, 2) : 0);
    rule.first_chunk = draw(0, 3);
    const int64_t more = draw(-2, 3);
    const json cache = more < 0 ? json::object() : with_room(rule, rule.chunks().begin(all), more);
    const at::Tensor want = small.made(rule, request, 1, nullptr), got = small.made(rule, request, 1, cache);
    ASSERT_LT(apart(got, want), 1e-12)
        << cache << ", " << round << ": chunk " << rule.chunk << ", the first " << rule.first_chunk
        << ", window " << window << ", sink " << rule.sink << ", pin " << static_cast<int>(small.shots.pin)
        << ", " << testing::PrintToString(request.shots);
  }
}

// Two shots, the second with another prompt.
at::Tensor switched(Small& small, const std::string& how, const json& more = json::object(),
                    int64_t window = 0) {
  json second = json::parse(shot("blue", 3, false, how));
  second.update(more);
  Request request{.seed = 2, .prompt = "red sea", .shots = {shot("red sea", 1), second.dump()}};
  return small.made(in_chunks(2, window), request, 1);
}

TEST(ShotVideo, ReadAgainIsAVideoWhoseChunksAllHaveTheNewPrompt) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2, kStreaming);
  const at::Tensor again = switched(small, "recache"), stays = switched(small, "none");
  small.then_says = "blue";
  // Without a cache and a stream, the prompt of then is that of all frames before.
  Request plain{.seed = 2, .prompt = "red sea"};
  const at::Tensor want = small.made(in_chunks(2), plain, 8, nullptr);
  EXPECT_LT(apart(again, want), 1e-12);
  EXPECT_GT(apart(stays, want), 1e-4) << "keys of the old prompt stay";
}

TEST(ShotVideo, ReadAgainHasTheSinkTheCutAndTheWindow) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 1);
  small.shots = {Frames::Pin::own, 8};
  const int64_t chunk = 2 * 2;  // tokens
  Request request{.seed = 2, .prompt = "red sea"};
  request.shots = {shot("red sea", 2), shot("red sea", 3), shot("blue", 1, false, "recache")};
  small.made(in_chunks(2, 2, 1), request, 1);
  EXPECT_EQ(small.kept, 3 * chunk) << "chunk 0, the cut's chunk 2, and chunk 4; the last one is not read";
  FrameOptions rule = in_chunks(2, 2, 1);
  rule.first_chunk = 1;
  small.made(rule, request, 1);
  EXPECT_EQ(small.kept, 2 * chunk + 2) << "the sink is one frame";
  request.shots = {shot("red sea", 1), shot("blue", 2, true, "recache")};
  small.made(in_chunks(2, 2, 2), request, 1);
  EXPECT_EQ(small.kept, 2 * chunk) << "the sink ends behind the switch";
}

// The keys and values of a model's first block depend on their chunk alone, so that reading them again changes
// nothing. The sink and the capacity are no whole chunks.
TEST(ShotVideo, ReadAgainHasThePartsOfChunksThatTheNextOneSees) {
  const at::NoGradGuard off;
  Small small(
      "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, heads = 2, "
      "head_size = 12, adaln_lora = 4 }",
      2);
  struct Case {
    int64_t chunk, first, capacity, sink;
  };
  for (const auto& c : {Case{2, 0, 5, 1}, {3, 0, 6, 1}, {3, 1, 8, 2}, {2, 3, 7, 2}, {2, 0, 6, 2}}) {
    FrameOptions rule = in_chunks(c.chunk);
    rule.first_chunk = c.first;
    const auto made = [&](int64_t before, const char* how) {
      Request request{.seed = 2, .prompt = "red sea"};
      request.shots = {shot("red sea", before, false), shot("red sea", 2, false, how)};
      return small.made(rule, request, 1, {{"capacity", c.capacity}, {"sink", c.sink}});
    };
    for (const int64_t before : {1, 2, 4})
      EXPECT_LT(apart(made(before, "recache"), made(before, "none")), 1e-12)
          << "chunks of " << c.chunk << ", capacity " << c.capacity << ", sink " << c.sink << ", " << before;
  }
}

TEST(ShotVideo, FlushedKeepsASinkThatIsNoWholeChunk) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2);
  const auto made = [&](const char* how, int64_t before) {
    Request request{.seed = 2, .prompt = "red sea"};
    request.shots = {shot("red sea", before, false), shot("red sea", 2, false, how)};
    return small.made(in_chunks(2), request, 1, {{"capacity", 13}, {"sink", 1}});
  };
  const int64_t area = 2;  // tokens of a frame
  made("flush", 5);
  EXPECT_EQ(small.kept, 5 * area) << "a frame, the last chunk before the switch, the first one after it";
  EXPECT_LT(apart(made("flush", 1), made("none", 1)), 1e-12) << "the last chunk has the sink";
}

TEST(ShotVideo, IsCancelledWhileItReadsGivenFrames) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 1);
  Parallelism parallel(test::runtime(), PlainPipeline::plan(*small.run));
  Pipeline pipeline(test::runtime(), small.spec(in_chunks(2), 6), parallel);
  Request request{.seed = 2, .prompt = "red sea", .video = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4"};
  request.condition_frames = 5;
  request.shots = {shot("red sea", 1), shot("blue", 2, false)};
  Session session(pipeline, request);
  int32_t code = KINORA_OK;
  pipeline.turns().lock();
  std::jthread maker([&] {
    try {
      session.next_chunk();
    } catch (const Error& e) {
      code = e.code();
    }
  });
  while (pipeline.turns().waiting() == 0) std::this_thread::yield();
  session.cancel();
  pipeline.turns().unlock();
  maker.join();
  EXPECT_EQ(code, KINORA_ERROR_CANCELLED);
}

TEST(ShotVideo, BeginsInTheShotInWhichGivenFramesEnd) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 1);
  Request request{.seed = 2, .prompt = "blue", .video = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4"};
  for (const int64_t given : {5, 9}) {  // at the end of the first shot, within the second one
    request.condition_frames = given;
    request.prompt = "blue";
    request.shots.clear();
    const at::Tensor blue = small.made(in_chunks(2), request, 6);
    request.prompt = "red sea";
    request.shots = {shot("red sea", 1), shot("blue", 2, false)};
    EXPECT_LT(apart(small.made(in_chunks(2), request, 1), blue), 1e-12) << given;
  }
}

TEST(ShotVideo, BlendsOverToItsPrompt) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2);
  const at::Tensor none = switched(small, "none"), at_once = switched(small, "blend", {{"blend", 1}}),
                   slow = switched(small, "blend", {{"blend", 3}});
  EXPECT_LT(apart(at_once, none), 1e-12);
  EXPECT_GT(apart(slow.narrow(2, 2, 2), none.narrow(2, 2, 2)), 1e-4);
  EXPECT_TRUE(at::equal(slow.narrow(2, 0, 2), none.narrow(2, 0, 2)));
}

TEST(ShotVideo, FlushedForgetsAllButTheSinkAndTheLastChunk) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2);
  FrameOptions rule = in_chunks(2, 9, 1);
  const auto made = [&](const std::string& how, int64_t before) {
    Request request{.seed = 2, .prompt = "red sea"};
    request.shots = {shot("red sea", before), shot("red sea", 2, false, how)};
    return small.made(rule, request, 1);
  };
  const int64_t chunk = 2 * 2;  // tokens
  made("none", 5);
  EXPECT_EQ(small.kept, 6 * chunk);
  made("flush", 5);
  EXPECT_EQ(small.kept, 3 * chunk)
      << "the sink, the last chunk of the first shot, the first one of the second";
  EXPECT_LT(apart(made("flush", 1), made("none", 1)), 1e-12)
      << "the first chunk is the sink and the last one";
  EXPECT_GT(apart(made("flush", 4), made("none", 4)), 1e-4);
  rule.first_chunk = 1;
  made("flush", 5);
  EXPECT_EQ(small.kept, 2 * chunk + 2) << "the sink is one frame";
}

TEST(ShotVideo, NeedsAModelThatMakesChunks) {
  Small small(kDit);
  Request request{.prompt = "red sea", .shots = {shot("red sea", 1), shot("blue", 1)}};
  FrameOptions at_once;
  EXPECT_THAT(test::refusal([&] { small.made(at_once, request, 3, nullptr); }),
              HasSubstr("shots are for a model"));
  EXPECT_THAT(test::refusal([&] { small.made(in_chunks(1), request, 3, nullptr); }), HasSubstr("on a cache"));
}

}  // namespace
}  // namespace kinora::core::inference
