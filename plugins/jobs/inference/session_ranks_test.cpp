// Sessions of a pipeline that several ranks share.
#include <map>
#include <optional>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/inference/plain_pipeline_testing.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::inference {
namespace {

using test::Rank;
using test::ScratchRun;
using testing::HasSubstr;

const std::map<std::string, std::string> kRun{{"film", "prompts = ['red sea']\nparallel = ['cfg']"}};

// The two ranks of guidance, one for each prediction.
struct Shared {
  explicit Shared(const Rank& me) : run(kRun) {
    EXPECT_EQ(run.problems(), "");
    me.launched();
    plain.emplace(run);
  }
  Pipeline& pipeline() { return plain->pipeline; }
  static Request request() {
    Request out;
    out.seed = 5;
    out.prompt = "red sea";
    out.guidance[0].scale = 2;
    return out;
  }
  ScratchRun run;
  std::optional<PlainPipeline> plain;
};

TEST(SessionsOfRanks, AreOneAtATime) {
  test::on_ranks(2, [](const Rank& me) {
    Shared shared(me);
    {
      Session first(shared.pipeline(), Shared::request());
      EXPECT_THAT(test::refusal([&] { const Session second(shared.pipeline(), Shared::request()); }),
                  HasSubstr("server: 2 ranks share this pipeline, and they make one video at a time; end the "
                            "other session first"));
      EXPECT_TRUE(first.next_chunk()) << "the refused one leaves nothing behind";
    }
    Session next(shared.pipeline(), Shared::request());
    EXPECT_TRUE(next.next_chunk());
  });
}

TEST(SessionsOfRanks, AreCancelledTogetherByOneRank) {
  test::on_ranks(
      2,
      [](const Rank& me) {
        Shared shared(me);
        Session* cancelled = nullptr;
        Session session(shared.pipeline(), Shared::request(), {.step = [&](int64_t done) {
                          if (me.rank == 1 && done == 2) cancelled->cancel();
                        }});
        cancelled = &session;
        EXPECT_THAT(test::refusal([&] { session.next_chunk(); }), HasSubstr("cancelled"));
        EXPECT_EQ(session.state().step, 2) << "the same step on both";
        EXPECT_FALSE(session.next_chunk());
        EXPECT_THAT(test::refusal([&] { session.set_prompt("blue"); }), HasSubstr("was cancelled"));
      },
      30);
}

}  // namespace
}  // namespace kinora::core::inference
