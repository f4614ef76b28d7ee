// Sessions that are rewound and branched: bit for bit the videos of sessions that were never stopped.
#include <map>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::inference::rewinding {
namespace {

using testing::HasSubstr;

struct Opened {
  Opened(const Small& small, const FrameOptions& rule, int64_t frames, const json& cache = json::object())
      : parallel(test::runtime(), PlainPipeline::plan(*small.run)),
        pipeline(test::runtime(), small.spec(rule, frames, cache), parallel) {}
  Parallelism parallel;
  Pipeline pipeline;
};

// Prompts that are set before a chunk, by its number.
using Prompts = std::map<int64_t, std::string>;

struct Result {
  std::vector<at::Tensor> chunks;  // uint8 frames
  at::Tensor latent;
};

// Makes the chunks that are left.
Result rest(Session& session, const Prompts& prompts = {}) {
  Result out;
  for (;;) {
    const auto prompt = prompts.find(session.state().chunk);
    if (prompt != prompts.end()) session.set_prompt(prompt->second);
    const auto frames = session.next_chunk();
    if (!frames) break;
    out.chunks.push_back(*frames);
  }
  out.latent = session.made().latent;
  return out;
}

Result whole(Pipeline& pipeline, const Request& request, const Prompts& prompts = {}) {
  Session session(pipeline, request);
  return rest(session, prompts);
}

// `got` is the end of `want`, from this chunk on.
void expect_end(const Result& got, const Result& want, size_t from, const std::string& what) {
  ASSERT_EQ(got.chunks.size() + from, want.chunks.size()) << what;
  for (size_t i = 0; i < got.chunks.size(); ++i)
    EXPECT_TRUE(at::equal(got.chunks[i], want.chunks[from + i])) << what << ": chunk " << from + i;
  EXPECT_TRUE(at::equal(got.latent, want.latent)) << what;
}

std::string shot(const std::string& prompt, int64_t chunks, bool cuts, const std::string& change = "none") {
  return json{{"prompt", prompt}, {"chunks", chunks}, {"cut", cuts}, {"switch", change}, {"blend", 4}}.dump();
}

struct Case {
  std::string name;
  FrameOptions rule;
  std::vector<std::string> shots;
  Prompts prompts;
  int64_t given = 0;  // pixel frames of a video that it begins with
  json cache = json::object();
};

std::vector<Case> cases() {
  const std::vector<std::string> cuts{shot("red sea", 1, true), shot("blue", 2, true),
                                      shot("red sea", 1, true), shot("blue", 2, false)};
  std::vector<Case> out{{"all chunks", in_chunks(1), {}, {}},
                        {"prompts", in_chunks(1), {}, {{1, "blue"}, {3, "sea"}}},
                        {"a window and a sink", in_chunks(1, 2, 1), {}, {{2, "blue"}}},
                        {"a capacity", in_chunks(1), {}, {{2, "blue"}}, 0, {{"capacity", 3}, {"sink", 1}}},
                        {"no cache", in_chunks(2, 2), {}, {{1, "blue"}}, 0, nullptr},
                        {"cuts", in_chunks(1, 2, 1), cuts, {{4, "sea"}}},
                        {"given frames", in_chunks(2), {}, {{1, "blue"}}, 9},
                        {"given frames in a shot",
                         in_chunks(1),
                         {shot("red sea", 1, false), shot("blue", 4, false, "blend"), shot("sea", 1, false)},
                         {},
                         9}};
  for (const char* change : {"recache", "blend", "flush"})
    out.push_back(
        {change,
         in_chunks(1, 3, 1),
         {shot("red sea", 2, true), shot("blue", 3, false, change), shot("red sea", 1, true, change)},
         {{3, "sea"}}});
  return out;
}

Request request_of(const Case& c) {
  Request out{.seed = 2, .prompt = "red sea", .negative = "blue", .shots = c.shots};
  out.guidance[0].scale = 2;
  if (c.given == 0) return out;
  out.video = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  out.condition_frames = c.given;
  return out;
}

TEST(RewoundSession, MakesTheSameVideoAgain) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2, kStreaming);
  small.shots = {Frames::Pin::before, 8};
  for (const auto& c : cases()) {
    Opened opened(small, c.rule, 6, c.cache);
    Session session(opened.pipeline, request_of(c));
    const Result want = rest(session, c.prompts);
    ASSERT_GT(want.chunks.size(), 1U) << c.name;
    for (size_t chunk = want.chunks.size(); chunk-- > 0;) {
      session.rewind(static_cast<int64_t>(chunk));
      EXPECT_EQ(session.state().chunk, static_cast<int64_t>(chunk));
      expect_end(rest(session), want, chunk, fmt::format("{}, from chunk {}", c.name, chunk));
    }
  }
}

TEST(RewoundSession, WithOtherPromptsIsAVideoThatHadThemFromTheStart) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2, kStreaming);
  for (const json& cache : {json(nullptr), json::object()}) {
    Opened opened(small, in_chunks(1, 3, 1), 5, cache);
    const Request request = request_of(cases()[0]);
    const Result red = whole(opened.pipeline, request), other = whole(opened.pipeline, request, {{2, "sea"}});
    Session session(opened.pipeline, request);
    const Result before = rest(session, {{1, "blue"}, {3, "blue"}});
    session.rewind(4);
    session.rewind(1);  // at once: nothing was made since
    session.set_prompt("red sea");
    expect_end(rest(session), red, 1, "the blue of chunk 3 is dropped");
    session.rewind(3);
    ASSERT_TRUE(session.next_chunk());
    session.rewind(2);
    session.set_prompt("sea");
    expect_end(rest(session), other, 2, "before its end");
    session.rewind(0);
    expect_end(rest(session, {{0, "red sea"}, {1, "blue"}, {3, "blue"}}), before, 0, "as at first");
    EXPECT_FALSE(at::equal(before.latent, red.latent)) << "equal videos would prove nothing";
  }
}

TEST(RewoundSession, GivesTheWholeAgainIfChunksCannotBeDecodedOneByOne) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2);
  Opened opened(small, in_chunks(2), 6);
  Session session(opened.pipeline, request_of(cases()[0]));
  const Result want = rest(session);
  session.rewind(1);
  EXPECT_FALSE(session.made().latent.defined());
  expect_end(rest(session), want, 0, "the whole");
}

TEST(RewoundSession, HasOnlyFinishedChunksBehindIt) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2, kStreaming);
  Opened opened(small, in_chunks(2), 6);
  Session session(opened.pipeline, request_of(cases()[0]));
  EXPECT_THAT(test::refusal([&] { session.rewind(0); }), HasSubstr("chunk 0 of video 000 is not finished"));
  ASSERT_TRUE(session.next_chunk());
  for (const int64_t chunk : {-1, 1})
    EXPECT_THAT(test::refusal([&] { session.rewind(chunk); }),
                HasSubstr("finished chunks: 1, counted from 0"));
  session.cancel();
  EXPECT_THAT(test::refusal([&] { session.rewind(0); }),
              HasSubstr("video 000 was cancelled, so it is not rewound; rewind a branch of it"));
  Opened at_once(small, FrameOptions(), 3, nullptr);
  Session one(at_once.pipeline, {.prompt = "red sea"});
  ASSERT_TRUE(one.next_chunk());
  EXPECT_THAT(test::refusal([&] { one.rewind(0); }),
              HasSubstr("makes its video at once, so it cannot be rewound"));
  EXPECT_THAT(test::refusal([&] { one.branch(); }), HasSubstr("so it cannot have a branch"));
}

TEST(BranchedSession, GoesItsOwnWay) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2, kStreaming);
  small.shots = {Frames::Pin::own, 8};
  for (const auto& c : cases()) {
    Opened opened(small, c.rule, 6, c.cache);
    const Request request = request_of(c);
    const Result want = whole(opened.pipeline, request, c.prompts);
    const auto chunks = static_cast<int64_t>(want.chunks.size());
    const int64_t at = chunks / 2;
    Prompts others = c.prompts;
    others.erase(others.lower_bound(at), others.end());
    others[at] = "red";
    const Result other = whole(opened.pipeline, request, others);
    EXPECT_FALSE(at::equal(other.latent, want.latent)) << c.name;
    Session session(opened.pipeline, request);
    std::vector<at::Tensor> first;
    for (int64_t chunk = 0; chunk < at; ++chunk) {
      if (c.prompts.contains(chunk)) session.set_prompt(c.prompts.at(chunk));
      first.push_back(*session.next_chunk());
      EXPECT_TRUE(at::equal(first.back(), want.chunks[static_cast<size_t>(chunk)])) << c.name;
    }
    const auto branch = session.branch();
    EXPECT_EQ(branch->state().chunk, at);
    Result got, got_other;
    for (int64_t chunk = at; chunk < chunks; ++chunk) {  // in turns
      if (chunk == at) branch->set_prompt("red");
      if (c.prompts.contains(chunk)) session.set_prompt(c.prompts.at(chunk));
      got_other.chunks.push_back(*branch->next_chunk());
      got.chunks.push_back(*session.next_chunk());
    }
    got.latent = session.made().latent, got_other.latent = branch->made().latent;
    expect_end(got, want, static_cast<size_t>(at), c.name);
    expect_end(got_other, other, static_cast<size_t>(at), c.name + ", the branch");
  }
}

TEST(BranchedSession, ContinuesOneThatWasCancelled) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2, kStreaming);
  Opened opened(small, in_chunks(1, 2, 1), 5);
  const Request request = request_of(cases()[0]);
  const Result want = whole(opened.pipeline, request, {{1, "blue"}});
  for (const int64_t at : {0, 2}) {
    Session* cancelled = nullptr;
    Session session(opened.pipeline, request, {.step = [&](int64_t) {
                      if (cancelled->state().chunk == at) cancelled->cancel();
                    }});
    cancelled = &session;
    EXPECT_THAT(test::refusal([&] { rest(session, {{1, "blue"}}); }), HasSubstr("cancelled"));
    const auto branch = session.branch();
    expect_end(rest(*branch, at == 0 ? Prompts{{1, "blue"}} : Prompts()), want, static_cast<size_t>(at),
               fmt::format("cancelled in chunk {}", at));
  }
}

TEST(BranchedSession, GivesTheFramesWhoseDecodingWasCancelled) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2, kStreaming);
  Opened opened(small, in_chunks(1, 2, 1), 3);
  const Request request = request_of(cases()[0]);
  const Result want = whole(opened.pipeline, request);
  Session* cancelled = nullptr;
  Session session(opened.pipeline, request,
                  {.preview =
                       [&](int64_t step, const at::Tensor&) {
                         if (step == 2 && cancelled->state().chunk == 2) cancelled->cancel();
                       },
                   .preview_every = 1});
  cancelled = &session;
  EXPECT_THAT(test::refusal([&] { rest(session); }), HasSubstr("cancelled"));
  const auto branch = session.branch();
  expect_end(rest(*branch), want, want.chunks.size() - 1, "the last frames");
}

TEST(BranchedSession, IsRewoundAndBranchedItself) {
  const at::NoGradGuard off;
  Small small(kDeepDit, 2, kStreaming);
  Opened opened(small, in_chunks(1, 2, 1), 5);
  Session session(opened.pipeline, request_of(cases()[0]));
  const Result want = rest(session, {{1, "blue"}});
  const auto done = session.branch();
  EXPECT_FALSE(done->next_chunk()) << "nothing is left";
  EXPECT_TRUE(at::equal(done->made().latent, want.latent));
  const auto rewound = session.branch();
  rewound->rewind(3);
  const auto again = rewound->branch();
  expect_end(rest(*again), want, 3, "the branch of a branch");
  expect_end(rest(*rewound), want, 3, "the branch");
}

}  // namespace
}  // namespace kinora::core::inference::rewinding
