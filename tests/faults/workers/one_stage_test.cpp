// A stage that reads untrusted media outside a pipeline: there too, damage to its process costs the current
// sample.
#include "host/stages/one_stage.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/kinora/command.hpp"
#include "core/base/cancel.hpp"
#include "core/runtime/call.hpp"
#include "tests/faults/workers/job.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

std::string error_of(const OneStage& stage, const std::string& key) {
  try {
    stage(Sample(key));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_DATA);
    return e.what();
  }
  return "";
}

std::string pid_in(const Sample& sample) { return std::string(sample.need("pid")); }

const std::string kThis = std::to_string(::getpid());

std::unique_ptr<StageInstance> instance(const char* name, bool may_be_apart) {
  const auto* spec = or_throw(runtime().registry().find("stage", name));
  const Options options = or_throw(Options::make(*spec, json::object()));
  return std::make_unique<StageInstance>(runtime().registry(), spec->id, options,
                                         Isolation{.is_allowed = may_be_apart});
}

TEST(StageInstance, TakesBatchesInThisProcessAndOneSampleInItsOwn) {
  const auto here = instance("together", false), apart = instance("together", true);
  EXPECT_EQ(here->resources().batch, 4u);
  EXPECT_EQ(apart->resources().batch, 0u);
  const Sample a("a"), b("b");
  kinora_sample* both[] = {a.get(), b.get()};
  StageResults results;
  Call call;
  here->process_batch(both, results.sink(), run_of(call));
  ASSERT_EQ(results.emitted.size(), 2u);
  EXPECT_EQ(results.emitted[1].need("together"), "2");
}

TEST(StageInstance, StartsAgainAfterAStartThatFailed) {
  const auto late = instance("starts-late", false);
  const Sample a("a"), b("b");
  StageResults results;
  Call call;
  EXPECT_THROW(late->process(a.get(), results.sink(), run_of(call)), Error);
  for (const Sample* one : {&a, &b}) late->process(one->get(), results.sink(), run_of(call));
  ASSERT_EQ(results.emitted.size(), 2u);
  EXPECT_EQ(results.emitted[1].need("starts"), "2");
}

TEST(StageInstance, KeepsNothingIfItHasNoFinish) {
  EXPECT_TRUE(instance("together", false)->keeps_nothing());
  EXPECT_FALSE(instance("pairs", false)->keeps_nothing());
  EXPECT_FALSE(instance("together", true)->keeps_nothing()) << "not known of a process";
}

TEST(OneStage, ACrashCostsOneSampleAndNotThisProcess) {
  const OneStage stage(runtime(), "faulty", {{"how", "crash"}});
  const std::string first = pid_in(stage(Sample("a")));
  EXPECT_NE(first, kThis);
  EXPECT_EQ(pid_in(stage(Sample("b"))), first) << "one process serves many samples";
  EXPECT_EQ(error_of(stage, "bad"), "stage/faulty: bad: killed by signal 11 (SIGSEGV), twice");
  EXPECT_NE(pid_in(stage(Sample("c"))), kThis);
}

TEST(OneStage, AHangEndsAtItsLimit) {
  const OneStage stage(runtime(), "faulty", {{"how", "hang"}}, {.timeout = 1.0});
  EXPECT_EQ(error_of(stage, "bad"), "stage/faulty: bad: killed after 1 s without a sign of life, twice");
  EXPECT_NE(pid_in(stage(Sample("c"))), kThis);
}

TEST(OneStage, OnWhichAStepWaitsHasALimitOnceTheRunIsToStop) {
  struct Cancelled {
    ~Cancelled() { cancel(false); }
  } cancelled;
  const OneStage hangs(runtime(), "faulty", {{"how", "hang"}}, {.patience = 0.5}),
      ends(runtime(), "faulty", {{"how", "none"}, {"milliseconds", 300}}, {.patience = 5});
  hangs(Sample("a")), ends(Sample("a"));
  std::thread after([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cancel();
  });
  EXPECT_EQ(ends(Sample("b")).key(), "b") << "the step that needs it may end";
  after.join();
  const auto begin = std::chrono::steady_clock::now();
  int32_t code = KINORA_OK;
  const std::string said = logged([&] {
    try {
      hangs(Sample("bad"));
    } catch (const Error& e) {
      code = e.code();
    }
  });
  EXPECT_EQ(code, KINORA_ERROR_CANCELLED);
  EXPECT_THAT(said, HasSubstr("stage/faulty: bad: stopped before it ended, as the run was to stop"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(OneStage, AProcessThatDiesOnceCostsNothing) {
  const Scratch once("kinora-one-stage-");
  const OneStage stage(runtime(), "faulty", {{"how", "crash"}, {"once", once.name()}});
  EXPECT_NE(pid_in(stage(Sample("bad"))), kThis);
}

TEST(OneStage, AnErrorOfTheStageIsNoDeath) {
  const OneStage stage(runtime(), "faulty", {{"how", "error"}});
  const std::string first = pid_in(stage(Sample("a")));
  EXPECT_EQ(error_of(stage, "bad"), "stage/faulty: bad bytes");
  EXPECT_EQ(pid_in(stage(Sample("c"))), first);
}

TEST(OneStage, OfAThirdPartyRunsHereOnlyWhereTheCallerForbidsAProcessOfItsOwn) {
  const OneStage stage(runtime(), "faulty", {{"isolated", false}});
  EXPECT_EQ(stage.resources().isolated, 1u);
  EXPECT_NE(pid_in(stage(Sample("a"))), kThis);
  EXPECT_EQ(pid_in(OneStage(runtime(), "faulty", json::object(), {.is_allowed = false})(Sample("a"))), kThis);
}

TEST(Apply, AStageThatCrashesLeavesWhatItMadeAndSaysHowItEnded) {
  const auto video = std::filesystem::temp_directory_path() / ("bad-" + kThis + ".mp4");
  std::ofstream(video) << "x";
  const auto applied = [&](const json& options) {
    ApplyRequest request;
    request.id = "stage/faulty";
    request.input = video.string();
    request.options = options;
    return apply_stage(runtime(), request);
  };
  const ApplyResult made = applied({{"how", "crash"}, {"clips", 4}});
  EXPECT_EQ(made.problem, "stage/faulty: bad-" + kThis + ": killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(made.result.at("emitted").size(), 2u) << made.result;
  EXPECT_THAT(
      [&] {
        applied({{"how", "crash"}});
      },
      ::testing::ThrowsMessage<Error>(HasSubstr("killed by signal 11 (SIGSEGV)")));
  std::filesystem::remove(video);
}

}  // namespace
}  // namespace kinora::core
