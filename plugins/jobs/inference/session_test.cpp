// Sessions of one pipeline: the same bytes at once as one after the other, whatever another session does.
#include "plugins/jobs/inference/session.hpp"

#include <atomic>
#include <condition_variable>
#include <semaphore>
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/cancel.hpp"
#include "core/runtime/call.hpp"
#include "core/torch/open.hpp"
#include "kinora/run.hpp"
#include "plugins/jobs/inference/requests.hpp"
#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::inference {
namespace {

using testing::HasSubstr;

const char* const kCodes =
    "tokenizer = { use = 'cosmos', formulation = 'FSQ', levels = [4, 3], embedding_dim = 2, latent_channels "
    "= 2, encoder_block_out_channels = [4, 8, 8], decode_block_out_channels = [4, 8, 8] }";
const char* const kCodeModel =
    "model = { use = 'ar', vocab_size = 12, n_layers = 2, dim = 24, n_heads = 4, n_kv_heads = 2, head_dim = "
    "6, ffn_hidden_size = 16, insert_cross_attn = true, context_dim = 12 }\nloss = 'next-token'";

// A pipeline of the run's generate job: "noise", "chunks", "undecoded" (chunks that cannot be decoded one by
// one) or "codes".
struct Opened {
  explicit Opened(const std::map<std::string, std::string>& more)
      : run(prepared(more)),
        encodes(encoded(*run)),
        context(run->context("film")),
        parallel(context),
        pipeline(test::runtime(), pipeline_spec(context, context.options<GenerateOptions>()), parallel),
        requests(core::requests(context, context.options<GenerateOptions>())) {}
  static Opened of_kind(const std::string& kind, const std::string& lines = "") {
    const std::string all = "prompts = ['red sea', 'blue']\nguidance = 2.0\n" + lines;
    if (kind == "codes") return Opened({{"tokenizer", kCodes}, {"dit", kCodeModel}, {"film", all}});
    const std::string by_chunk = "teacher_forcing = true\nchunk = 1";
    if (kind == "chunks") return Opened({{"tokenizer", kStreaming}, {"dit", by_chunk}, {"film", all}});
    if (kind == "undecoded") return Opened({{"dit", by_chunk}, {"film", all}});
    return Opened({{"film", all}});
  }
  Request request(size_t number, uint64_t seed) const {
    Request out = requests.at(number);
    out.seed = seed;
    return out;
  }

  std::unique_ptr<ScratchRun> run;
  json encodes;
  JobContext context;
  Parallelism parallel;
  Pipeline pipeline;
  std::vector<Request> requests;
};

// The frames of every chunk.
std::vector<at::Tensor> all_chunks(Session& session) {
  std::vector<at::Tensor> out;
  while (const auto frames = session.next_chunk()) out.push_back(*frames);
  return out;
}
at::Tensor video(Pipeline& pipeline, const Request& request) {
  Session session(pipeline, request);
  return at::cat(all_chunks(session));
}

// Two threads that wait for each other at their steps, so that the steps surely interleave. A thread that is
// done waits for none.
class InStep {
 public:
  void step(size_t of) {
    std::unique_lock lock(mutex_);
    ++steps_[of];
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_[1 - of] || steps_[1 - of] >= steps_[of]; });
    is_mixed_ = is_mixed_ || !done_[1 - of];
  }
  void finish(size_t of) {
    const std::scoped_lock lock(mutex_);
    done_[of] = true;
    changed_.notify_all();
  }
  bool is_mixed() const { return is_mixed_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<int64_t, 2> steps_{0, 0};
  std::array<bool, 2> done_{false, false};
  bool is_mixed_ = false;
};

class Sessions : public testing::TestWithParam<std::string> {};

TEST_P(Sessions, AtOnceMakeTheVideosOfOneAfterTheOther) {
  Opened opened = Opened::of_kind(GetParam());
  const std::array requests{opened.request(0, 5), opened.request(1, 6)};
  std::array<at::Tensor, 2> alone, together;
  for (size_t i = 0; i < 2; ++i) alone[i] = video(opened.pipeline, requests[i]);
  EXPECT_FALSE(at::equal(alone[0], alone[1])) << "equal videos would prove nothing";
  InStep in_step;
  std::array<std::vector<int64_t>, 2> told;
  const auto make = [&](size_t i) {
    Session session(opened.pipeline, requests[i], {.step = [&, i](int64_t done) {
                      told[i].push_back(done);
                      in_step.step(i);
                    }});
    together[i] = at::cat(all_chunks(session));
    EXPECT_EQ(session.state().chunk, session.state().chunks);
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      EXPECT_EQ(test::refusal([&] { make(i); }), "nothing was refused");
      in_step.finish(i);
    });
  threads.clear();  // joined
  EXPECT_TRUE(in_step.is_mixed());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(at::equal(alone[i], together[i])) << i;
    EXPECT_EQ(told[i], told[0]) << "each session tells its own steps";
  }
  EXPECT_EQ(told[0].front(), 1);
}

TEST_P(Sessions, AreCancelledAloneAndAtTheNextStep) {
  Opened opened = Opened::of_kind(GetParam());
  const Request first = opened.request(0, 5), second = opened.request(1, 6);
  const at::Tensor alone = video(opened.pipeline, second);
  Session other(opened.pipeline, second);
  Session* cancelled = nullptr;
  int64_t steps = 0;
  Session session(opened.pipeline, first, {.step = [&](int64_t) {
                    ++steps;
                    cancelled->cancel();
                  }});
  cancelled = &session;
  {
    const std::jthread thread(
        [&] { EXPECT_THAT(test::refusal([&] { session.next_chunk(); }), HasSubstr("cancelled")); });
    EXPECT_TRUE(at::equal(at::cat(all_chunks(other)), alone));
  }
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(session.state().step, 1);
  EXPECT_EQ(session.state().chunk, 0);
  EXPECT_FALSE(session.next_chunk()) << "it is over";
  EXPECT_TRUE(at::equal(video(opened.pipeline, second), alone)) << "and leaves nothing behind";
}

TEST_P(Sessions, StopWithTheRun) {
  Opened opened = Opened::of_kind(GetParam());
  Session session(opened.pipeline, opened.request(0, 5), {.step = [](int64_t) { cancel(); }});
  EXPECT_THAT(test::refusal([&] { session.next_chunk(); }), HasSubstr("cancelled"));
  cancel(false);
  EXPECT_EQ(session.state().step, 1);
  EXPECT_FALSE(session.next_chunk());
}

// The session gets a turn at a time: before each of them another thread has come behind it, and the session makes no
// step until it has its next one.
TEST_P(Sessions, CallNetworksInTheirTurnsAlone) {
  Opened opened = Opened::of_kind(GetParam());
  Turns& turns = opened.pipeline.turns();
  std::atomic<int64_t> steps{0}, frames{-1};
  turns.lock();
  const std::jthread thread([&] {
    Session session(opened.pipeline, opened.request(0, 5), {.step = [&](int64_t) { ++steps; }});
    frames = at::cat(all_chunks(session)).size(0);
  });
  const auto await = [&](uint64_t waiting) {
    while (turns.waiting() < waiting && frames < 0) std::this_thread::yield();
    return frames < 0;
  };
  int64_t taken = 0, before = 0;
  while (await(1)) {
    EXPECT_LE(steps - before, 1) << "each step has a turn of its own";
    before = steps;
    ++taken;
    std::jthread behind([&] { turns.lock(); });
    await(2);
    turns.unlock();  // the session's turn, then that of `behind`, which leaves it to this thread
  }
  turns.unlock();
  EXPECT_EQ(frames, kFrames);
  EXPECT_GT(taken, steps) << "a step and a text have a turn each";
}

INSTANTIATE_TEST_SUITE_P(Of, Sessions, testing::Values("noise", "chunks", "undecoded", "codes"),
                         [](const auto& info) { return info.param; });

// A sampler that draws noise uses the same keys in each chunk; the host mixes the chunk in.
TEST(Session, AStochasticSamplerDrawsOtherNumbersInEachChunk) {
  test::runtime();
  offer_tensors(torch_tensors());
  Call call;
  call.seed = 7;
  const at::Tensor like = at::zeros({1, 4096}, at::kDouble);
  const auto drawn = [&](int64_t chunk) {
    call.chunk = chunk;
    const kinora_run run = run_of(call);
    return kinora::Run(&run).noise("step/1", like);
  };
  const at::Tensor first = drawn(0), second = drawn(1), third = drawn(2);
  EXPECT_TRUE(at::equal(first, drawn(0)));
  for (const auto& [a, b] : {std::pair{first, second}, {second, third}, {first, third}})
    EXPECT_LT((a * b).mean().abs().item<double>(), 5 / std::sqrt(4096.0)) << "they are independent";
}

TEST(Session, GivesEachChunkAndTheirWholeIsTheVideo) {
  Opened opened = Opened::of_kind("chunks");
  Session session(opened.pipeline, opened.request(0, 5));
  EXPECT_EQ(session.state().chunks, 0) << "nothing has begun";
  const auto chunks = all_chunks(session);
  ASSERT_EQ(chunks.size(), 3U) << "latent frames, one each";
  EXPECT_EQ(chunks[0].size(0), 1);
  EXPECT_EQ(chunks[1].size(0), 4);
  const std::scoped_lock turn(opened.pipeline.coding_turns());
  const auto whole = frames_of(opened.pipeline.tokenizer().decode(session.made().latent));
  EXPECT_TRUE(at::equal(at::cat(chunks), whole));
  EXPECT_EQ(session.state().chunk, 3);
  EXPECT_EQ(session.state().steps, 3);
}

TEST(Session, GivesTheWholeAtOnceIfChunksCannotBeDecodedOneByOne) {
  Opened opened = Opened::of_kind("undecoded");
  Session session(opened.pipeline, opened.request(0, 5));
  EXPECT_EQ(session.next_chunk()->size(0), kFrames);
  EXPECT_EQ(session.state().chunk, 3);
  EXPECT_FALSE(session.next_chunk());
}

TEST(Session, ANewPromptActsFromTheNextChunkOn) {
  Opened opened = Opened::of_kind("chunks");
  const Request red = opened.request(0, 5);
  Request blue = red;
  blue.prompt = "blue";
  Session changed(opened.pipeline, red), stays(opened.pipeline, red), other(opened.pipeline, blue);
  const auto first = *changed.next_chunk();
  changed.set_prompt("blue");
  const auto then = at::cat(all_chunks(changed)), red_chunks = at::cat(all_chunks(stays)),
             blue_chunks = at::cat(all_chunks(other));
  EXPECT_TRUE(at::equal(first, red_chunks.narrow(0, 0, 1)));
  EXPECT_FALSE(at::equal(then, red_chunks.narrow(0, 1, 8)));
  EXPECT_FALSE(at::equal(first, blue_chunks.narrow(0, 0, 1)));
  EXPECT_THAT(test::refusal([&] { changed.set_prompt("sea"); }),
              HasSubstr("the last of 3 of video 000 has begun"));
  Session early(opened.pipeline, red);
  early.set_prompt("blue");
  EXPECT_TRUE(at::equal(at::cat(all_chunks(early)), blue_chunks));
}

// The main thread steers a session while its own thread waits within a step.
class Steered {
 public:
  Steered(Pipeline& pipeline, const Request& request)
      : session(pipeline, request, {.step = [this](int64_t done) {
                  if (done > 1) return;
                  reached_.release();
                  go_.acquire();
                }}) {}
  void start() {
    thread_ = std::jthread([this] { refusal = test::refusal([this] { chunks = all_chunks(session); }); });
  }
  // Waits for the first step of the next chunk.
  void await_chunk() { reached_.acquire(); }
  void go_on() { go_.release(); }
  void finish() { thread_.join(); }

  Session session;
  std::vector<at::Tensor> chunks;
  std::string refusal;

 private:
  std::binary_semaphore reached_{0}, go_{0};
  std::jthread thread_;
};

TEST(Session, TakesAPromptFromAnotherThread) {
  Opened opened = Opened::of_kind("chunks");
  Session changed(opened.pipeline, opened.request(0, 5));
  std::vector<at::Tensor> expected{*changed.next_chunk()};
  changed.set_prompt("blue");
  while (const auto frames = changed.next_chunk()) expected.push_back(*frames);
  Steered steered(opened.pipeline, opened.request(0, 5));
  steered.start();
  for (int64_t chunk = 0; chunk < 3; ++chunk) {
    steered.await_chunk();
    const auto state = steered.session.state();
    EXPECT_EQ((std::array{state.chunk, state.chunks, state.step, state.steps}),
              (std::array<int64_t, 4>{chunk, 3, 1, 3}));
    if (chunk == 0) steered.session.set_prompt("blue");
    steered.go_on();
  }
  steered.finish();
  EXPECT_EQ(steered.refusal, "nothing was refused");
  EXPECT_TRUE(at::equal(at::cat(steered.chunks), at::cat(expected)));
}

TEST(Session, IsCancelledByAnotherThread) {
  Opened opened = Opened::of_kind("chunks");
  Steered steered(opened.pipeline, opened.request(0, 5));
  steered.start();
  steered.await_chunk();
  steered.go_on();
  steered.await_chunk();
  steered.session.cancel();
  EXPECT_THAT(test::refusal([&] { steered.session.set_prompt("blue"); }),
              HasSubstr("video 000 was cancelled"));
  steered.go_on();
  steered.finish();
  EXPECT_THAT(steered.refusal, HasSubstr("cancelled"));
  EXPECT_EQ(steered.session.state().chunk, 1);
  EXPECT_EQ(steered.session.state().step, 1);
}

TEST(Session, TakesNoPromptOnceItHasFailed) {
  Opened opened = Opened::of_kind("chunks");
  Request request = opened.request(0, 5);
  request.image = opened.run->folder() / "none.png";
  Session session(opened.pipeline, request);
  EXPECT_THAT(test::refusal([&] { session.next_chunk(); }), HasSubstr("none.png"));
  EXPECT_THAT(test::refusal([&] { session.set_prompt("blue"); }), HasSubstr("video 000 has failed"));
}

TEST(Pipeline, IsMadeFromPlainValuesWithoutAJob) {
  Opened opened = Opened::of_kind("noise");
  PlainPipeline plain(*opened.run, LatentFacts::of_folder(opened.run->of("latents")));
  const Request request = opened.request(0, 5);
  EXPECT_TRUE(at::equal(video(plain.pipeline, request), video(opened.pipeline, request)));
}

TEST(Pipeline, GivesItsNetworksOnlyWithATurn) {
  Opened opened = Opened::of_kind("noise");
  EXPECT_THROW(opened.pipeline.model(), std::logic_error);
  EXPECT_THROW(opened.pipeline.tokenizer(), std::logic_error);
  {
    const std::scoped_lock turn(opened.pipeline.turns());
    EXPECT_NO_THROW(opened.pipeline.model());
    EXPECT_THROW(opened.pipeline.tokenizer(), std::logic_error);
  }
  const std::scoped_lock turn(opened.pipeline.coding_turns());
  EXPECT_NO_THROW(opened.pipeline.tokenizer());
}

}  // namespace
}  // namespace kinora::core::inference
