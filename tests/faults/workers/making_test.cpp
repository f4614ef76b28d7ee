// Constructors of stages also run in processes: a failure there ends the run, in time and with its reason.
#include <string>

#include <gtest/gtest.h>

#include "core/base/cancel.hpp"
#include "core/plugin/options.hpp"
#include "host/workers/service.hpp"
#include "host/workers/worker.hpp"
#include "tests/faults/workers/job.hpp"

namespace kinora::core {
namespace {

TEST(Workers, AConstructorThatCrashesEndsTheRunAndNotThisProcess) {
  for (const char* where : {"constructor", "resources"}) {
    Job job;
    job.stage = {{"where", where}};
    for (const char* isolate : {"auto", "all", "fault"}) {
      job.engine = {{"isolate", {isolate}}};
      const Ran ran = job.run();
      EXPECT_EQ(ran.error,
                "stage 'fault': killed by signal 11 (SIGSEGV) while an instance was made, in its constructor "
                "or resources(); fix "
                "the plugin or the stage's options, or leave the stage out");
      EXPECT_TRUE(ran.ends.empty());
    }
  }
}

TEST(Workers, AConstructorThatHangsIsSaidAndHearsThatTheProgramIsToStop) {
  Ran ran;
  const std::string text = logged([&] {
    Job job;
    job.stage = {{"where", "constructor"}, {"how", "hang"}};
    std::thread after([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(13000));
      cancel(true);
    });
    ran = job.run();
    after.join();
    cancel(false);
  });
  EXPECT_EQ(ran.error, "cancelled");
  EXPECT_GT(ran.seconds, 12.5);
  EXPECT_EQ(times(text, "fault: still making its instance after 10 s"), 1) << text;
}

TEST(Workers, AConstructorThatHangsEndsAtTheLimit) {
  runtime();
  const auto faulty = or_throw(runtime().registry().open("stage/faulty"));
  const Options options = or_throw(Options::make(*faulty.spec, {{"where", "constructor"}, {"how", "hang"}}));
  const kinora_worker_spec spec{sizeof spec, 0, "fault", "stage/faulty", options.canonical().c_str(), 0,
                                0,           0, 0};
  try {
    const Worker worker({KINORA_PROGRAM, {KINORA_FAULTY}, 0.7}, spec);
    ADD_FAILURE() << "made";
  } catch (const WorkerDied& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with(
        "killed after 0.7 s, the most that making an instance may take, while an instance was made"))
        << e.what();
  }
}

// A kill as by a system short of memory: it is retried, and neither the plugin nor the options are blamed.
TEST(Workers, OnlyAKilledConstructorIsTriedAgain) {
  const auto run = [](const json& stage, Ran& ran) {
    return logged([&] {
      Job job;
      job.stage = stage;
      ran = job.run();
    });
  };
  Ran ran;
  const Scratch once("kinora-begun-");
  std::string text = run({{"where", "constructor"}, {"how", "kill"}, {"once", once.name()}}, ran);
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.ends.size(), 4u);
  EXPECT_EQ(times(text,
                  "fault: killed by signal 9 (SIGKILL, perhaps by the system for lack of memory) while its "
                  "instance was made; trying again"),
            1)
      << text;
  text = run({{"where", "constructor"}, {"how", "kill"}}, ran);
  EXPECT_EQ(ran.error,
            "stage 'fault': killed by signal 9 (SIGKILL, perhaps by the system for lack of memory) while an "
            "instance was made; free "
            "memory and run again");
  EXPECT_EQ(times(text, "trying again"), 2) << text;
  text = run({{"where", "constructor"}, {"how", "crash"}, {"milliseconds", 1}}, ran);
  EXPECT_NE(ran.error.find("killed by signal 11 (SIGSEGV) while an instance was made, in its constructor"),
            std::string::npos);
  EXPECT_EQ(times(text, "trying again"), 0) << text;
}

TEST(Workers, ANumberOfCoresThatIsNoneIsSaid) {
  Job job;
  job.stage = {{"where", "number"}};
  EXPECT_EQ(job.run().error,
            "stage 'fault': asks for a number of cores that is not a number (NaN); correct its resources()");
}

TEST(Workers, ANameThatIsNoStageIsRefused) {
  Job job;
  job.engine = {{"isolate", {"fualt"}}};
  EXPECT_NE(job.run().error.find("isolate names 'fualt', which is not a stage of this job"),
            std::string::npos);
}

}  // namespace
}  // namespace kinora::core
