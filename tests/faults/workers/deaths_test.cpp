// A stage that damages its process costs one sample.
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "core/runtime/call.hpp"
#include "host/stages/one_stage.hpp"
#include "host/workers/worker.hpp"
#include "tests/faults/workers/job.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

TEST(Workers, ACrashCostsOneSampleAndItsReasonSaysHow) {
  const std::map<std::string, std::string> reasons{
      {"crash", "killed by signal 11 (SIGSEGV) in fault, twice"},
      {"abort", "killed by signal 6 (SIGABRT) in fault, twice"},
      {"exit", "its process ended by itself with code 3 in fault, twice"}};
  for (const auto& [how, reason] : reasons) {
    Job job;
    job.stage = {{"how", how}};
    const Ran ran = job.run();
    EXPECT_EQ(ran.error, "");
    EXPECT_EQ(ran.ends, (std::map<std::string, std::string>{
                            {"a", "kept"}, {"b", "kept"}, {"bad", reason}, {"c", "kept"}}));
    EXPECT_FALSE(ran.pids.contains(std::to_string(::getpid())));
  }
}

TEST(Workers, AProcessServesManySamples) {
  Job job;
  job.keys.clear();
  for (int i = 0; i < 100; ++i) job.keys.push_back(std::to_string(i));
  const Ran ran = job.run();
  EXPECT_EQ(ran.ends.size(), 100u);
  EXPECT_LE(ran.pids.size(), 2u);
}

TEST(Workers, ASecondAttemptTellsNothingTwice) {
  const fs::path once = fs::temp_directory_path() / ("kinora-once-" + std::to_string(::getpid()));
  Job job;
  job.keys = {"bad", "good"};
  job.stage = {{"how", "crash"}, {"clips", 10}, {"once", once.string()}};
  const Ran ran = job.run();
  fs::remove(once);
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.ends.size(), 22u);
  for (const auto& [key, end] : ran.ends) EXPECT_EQ(end, "kept") << key;
  for (const auto& [key, n] : ran.times) EXPECT_EQ(n, 1) << key;
}

TEST(Workers, WhatWasMadeBeforeTheLastCrashIsKept) {
  Job job;
  job.keys = {"bad"};
  job.stage = {{"how", "crash"}, {"clips", 4}};
  const Ran ran = job.run();
  EXPECT_EQ(
      ran.ends,
      (std::map<std::string, std::string>{
          {"bad-0", "kept"}, {"bad-1", "kept"}, {"bad", "killed by signal 11 (SIGSEGV) in fault, twice"}}));
}

TEST(Workers, AHangEndsAtItsLimit) {
  Job job;
  job.stage = {{"how", "hang"}};
  job.engine = {{"item_timeout", 0.5}, {"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_EQ(ran.ends.at("bad"), "killed after 0.5 s without a sign of life (item_timeout) in fault");
  EXPECT_EQ(ran.ends.at("c"), "kept");
}

TEST(Workers, ASlowSampleThatLivesIsLetBe) {
  Job job;
  job.keys = {"a"};
  job.stage = {{"how", "none"}, {"milliseconds", 1200}};
  job.engine = {{"item_timeout", 0.5}};
  EXPECT_EQ(job.run().ends.at("a"), "kept");
}

// MiB. A process under the address sanitizer needs more than the smaller value from the start.
#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kMemory = 1024;
#else
constexpr uint64_t kMemory = 256;
#endif

std::string too_much() {
  return "of memory, more than the " + std::to_string(kMemory) + " MiB it may have (item_memory) in fault";
}

TEST(Workers, MemoryWithoutEndEndsAtItsLimit) {
  Job job;
  job.stage = {{"how", "allocate"}};
  job.engine = {{"item_memory", kMemory << 20}, {"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_NE(ran.ends.at("bad").find(too_much()), std::string::npos) << ran.ends.at("bad");
  EXPECT_EQ(ran.ends.at("c"), "kept");
}

// Each process stays within its own limit, both together exceed theirs: the working one is killed, the
// waiting one is kept.
TEST(Workers, OfProcessesThatHoldTooMuchTogetherTheLargestAtWorkEnds) {
  runtime();
  const auto heavy = [](Worker& worker) {
    StageResults results;
    const kinora_emit sink = results.sink();
    Call call;
    return worker.process(Sample("bad"), sink, run_of(call));
  };
  for (const uint64_t together : {uint64_t{0}, (320 + 2 * (kMemory - 256)) << 20}) {
    const kinora_worker_spec spec{sizeof spec, 0, "fault", "stage/faulty", R"({"how":"heavy"})",
                                  0,           0, 0,       together};
    Worker waits({KINORA_PROGRAM, {KINORA_FAULTY}}, spec), works({KINORA_PROGRAM, {KINORA_FAULTY}}, spec);
    EXPECT_EQ(heavy(waits), KINORA_OK);
    std::string died;
    try {
      EXPECT_EQ(heavy(works), KINORA_OK);
    } catch (const WorkerDied& e) {
      died = e.what();
    }
    const std::string expected =
        "more than the " + std::to_string(together >> 20) + " MiB that they may have (worker_memory)";
    EXPECT_TRUE(together == 0 ? died.empty() : died.find(expected) != std::string::npos) << died;
    EXPECT_FALSE(waits.ended());
  }
}

TEST(Workers, TheEngineBoundsWhatItsProcessesHoldTogether) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "most of a process's memory is the sanitizer's own";
#endif
  Job job;
  job.stage = {{"how", "heavy"}};
  job.engine = {
      {"worker_memory", (kMemory - 106) << 20}, {"item_memory", 2 * kMemory << 20}, {"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_NE(ran.ends.at("bad").find("MiB that they may have (worker_memory) in fault"), std::string::npos)
      << ran.ends.at("bad");
  EXPECT_EQ(ran.ends.at("c"), "kept");
}

TEST(Workers, GiveTheSameAsThreads) {
  for (const std::string how : {"none", "error"}) {
    Job threads, processes;
    for (Job* job : {&threads, &processes}) job->stage = {{"how", how}, {"clips", 3}};
    threads.engine = {{"isolate", {"none"}}};
    processes.engine = {{"isolate", {"fault"}}};
    const Ran a = threads.run(), b = processes.run();
    EXPECT_EQ(a.pids, std::set<std::string>{std::to_string(::getpid())});
    EXPECT_FALSE(b.pids.contains(std::to_string(::getpid())));
    EXPECT_EQ(a.ends, b.ends);
    EXPECT_TRUE(a.fields == b.fields) << "bytes of fields or tensors differ";
    EXPECT_EQ(b.fields.at("bad.seen"), "yes")
        << "a field that a stage sets on an input that it does not emit";
    EXPECT_EQ(b.fields.at("a.mp4").size(), 300001u);
    EXPECT_EQ(b.fields.at("a.frames").size(), 72000u + 3);
  }
}

TEST(Workers, WhatAProcessKeptBackFailsWithIt) {
  Job job;
  job.keys = {"a", "bad"};
  job.stage = {{"how", "crash"}, {"holds", true}, {"milliseconds", 100}};
  job.engine = {{"isolate", {"all"}}, {"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.ends.at("bad"), "killed by signal 11 (SIGSEGV) in fault");
  // In the same process as the bad one, or in another.
  EXPECT_TRUE(ran.ends.at("a") == "kept" ||
              ran.ends.at("a") == "held by a process that was killed by signal 11 (SIGSEGV) in fault")
      << ran.ends.at("a");
}

std::map<std::string, std::string> all_kept(const std::vector<std::string>& keys) {
  std::map<std::string, std::string> out;
  for (const auto& key : keys) out[key] = "kept";
  return out;
}

// The whole batch is in the process that dies. Each sample is then processed alone, with all its bytes, and
// no outcome is reported twice.
TEST(Workers, OfABatchOnlyTheSampleFailsThatKillsItsProcess) {
  for (const auto& [retries, reason] : {std::pair{0, "killed by signal 11 (SIGSEGV) in fault"},
                                        {1, "killed by signal 11 (SIGSEGV) in fault, twice"}})
    for (const bool in_finish : {false, true}) {
      Job job;
      job.keys = {"a", "b", "bad", "c", "d", "e", "f", "g"};
      job.stage = {{"how", "crash"}, {"where", "batch"}, {"batch", in_finish ? 1000 : 3}, {"clips", 2}};
      job.engine = {{"item_retries", retries}};
      const Ran ran = job.run();
      EXPECT_EQ(ran.error, "");
      auto expected = all_kept(job.keys);
      expected["bad"] = reason;
      for (const auto& key : job.keys) expected[key + "-0"] = expected[key + "-1"] = "kept";
      EXPECT_EQ(ran.ends, expected) << in_finish;
      for (const auto& [key, n] : ran.times) EXPECT_EQ(n, 1) << key;
      EXPECT_EQ(ran.fields.at("g.mp4"), std::string(300008, '\x08'));
      EXPECT_EQ(ran.fields.at("g.frames").size(), 72000u + 3);
    }
}

// An ordered stage declares whether it has more state than the samples it keeps.
TEST(Workers, AnOrderedBatchIsBegunAnewAndOtherStateIsNot) {
  for (const int ordered : {1, 2}) {
    Job job;
    job.keys = {"a", "b", "bad", "c", "d", "e"};
    job.stage = {{"how", "crash"}, {"where", "batch"}, {"batch", 4}, {"ordered", ordered}};
    const Ran ran = job.run();
    if (ordered == 1) {
      EXPECT_EQ(ran.error, "stage 'fault': killed by signal 11 (SIGSEGV) in fault");
      continue;
    }
    auto expected = all_kept(job.keys);
    expected["bad"] = "killed by signal 11 (SIGSEGV) in fault, twice";
    EXPECT_EQ(ran.error, "");
    EXPECT_EQ(ran.ends, expected);
  }
}

TEST(Workers, ABatchThatDiesOnceLosesNothing) {
  const fs::path once = fs::temp_directory_path() / ("kinora-batch-" + std::to_string(::getpid()));
  Job job;
  job.keys = {"a", "b", "bad", "c", "d"};
  job.stage = {{"how", "crash"}, {"where", "batch"}, {"batch", 4}, {"once", once.string()}};
  const Ran ran = job.run();
  fs::remove(once);
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.ends, all_kept(job.keys));
}

TEST(Workers, AClosedConnectionIsNoLackOfMemory) {
  Job job;
  job.stage = {{"how", "close"}};
  job.engine = {{"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_EQ(ran.ends.at("bad"), "killed: it closed its connection and continued in fault");
  EXPECT_EQ(ran.ends.at("c"), "kept");
}

TEST(Workers, AKilledProcessIsSaidToBe) {
  Job job;
  job.stage = {{"how", "kill"}};
  job.engine = {{"item_retries", 0}};
  EXPECT_EQ(job.run().ends.at("bad"),
            "killed by signal 9 (SIGKILL, perhaps by the system for lack of memory) in fault");
}

// As long as for a video of hours: larger than a message, and stored only here.
TEST(Workers, ALongFieldOfAnInputThatIsNotHandedOnReachesItsEnd) {
  for (const char* isolate : {"none", "fault"})
    for (const json& stage :
         {json{{"how", "none"}, {"keeps", true}, {"clips", 2}}, json{{"how", "none"}, {"keeps", true}},
          json{{"how", "error"}, {"when", "a"}}}) {
      Job job;
      job.keys = {"a"};
      job.stage = stage;
      job.stage["sets"] = 6 << 20;
      job.engine = {{"isolate", {isolate}}};
      const Ran ran = job.run();
      EXPECT_EQ(ran.ends.at("a"), stage["how"] == "error" ? "bad bytes" : "consumed") << isolate << stage;
      EXPECT_TRUE(ran.fields.contains("a.shots.json") &&
                  ran.fields.at("a.shots.json") == std::string(6 << 20, '7'))
          << isolate << stage;
    }
}

// Three of six outcomes are reported when finish() fails: the other three samples fail, and the run
// continues.
TEST(Workers, AnErrorInFinishCostsWhatWasStillKeptBack) {
  for (const char* isolate : {"none", "fault"})
    for (const int ordered : {0, 1, 2}) {
      Job job;
      job.keys = {"a", "b", "c", "d", "e", "f"};
      job.stage = {{"how", "none"}, {"where", "finish"}, {"holds", true}, {"ordered", ordered}};
      job.engine = {{"isolate", {isolate}}};
      const Ran ran = job.run();
      EXPECT_EQ(ran.error, ordered == 1 ? "stage 'fault': the index is broken" : "");
      if (ordered == 1) continue;
      int kept = 0;
      for (const auto& [key, end] : ran.ends) {
        kept += end == "kept";
        EXPECT_TRUE(end == "kept" || end == "the index is broken") << key << ": " << end;
      }
      EXPECT_EQ(ran.ends.size(), 6u);
      EXPECT_TRUE(kept == 3 || (ordered == 0 && kept == 2))
          << kept << ": one instance keeps all, or two instances share them";
    }
}

// A key that no server accepts: the run ends, and no sample is reported as failed.
TEST(Workers, AStageThatCanDoNoSampleEndsTheRun) {
  for (const char* isolate : {"none", "fault"})
    for (const char* where : {"process", "finish"}) {
      Job job;
      job.keys = {"bad"};
      job.stage = {{"how", "stop"}, {"where", where}, {"holds", true}};
      job.engine = {{"isolate", {isolate}}};
      const Ran ran = job.run();
      EXPECT_EQ(ran.error, "stage 'fault': the key is refused") << isolate << " " << where;
      EXPECT_TRUE(ran.ends.empty()) << isolate << " " << where << ": " << ran.ends.begin()->second;
    }
}

// An instance without pending samples may lose unknown state, so an error and a death both end the run.
TEST(Workers, WhoDiesInFinishWithNothingKeptBackEndsTheRun) {
  const std::map<std::string, std::string> reasons{
      {"crash", "killed by signal 11 (SIGSEGV) in finish()"},
      {"hang", "killed after 0.5 s without a sign of life (item_timeout) in finish()"},
      {"error", "bad bytes"}};
  for (const auto& [how, reason] : reasons)
    for (const bool holds : {false, true}) {
      Job job;
      job.stage = {{"how", how}, {"where", "end"}, {"holds", holds}};
      job.engine = {{"item_timeout", 0.5}};
      EXPECT_EQ(job.run().error, "stage 'fault': " + reason) << holds;
    }
}

// The sample was emitted: its process may die over it any number of times.
TEST(Workers, ADeathOverWhatHasGoneOnIsNoSecondEnd) {
  for (const char* how : {"crash", "error"}) {
    Job job;
    job.stage = {{"how", how}, {"where", "late"}};
    const Ran ran = job.run();
    EXPECT_EQ(ran.error, "");
    EXPECT_EQ(ran.ends, all_kept(job.keys)) << how;
    for (const auto& [key, n] : ran.times) EXPECT_EQ(n, 1) << how << " " << key;
  }
}

TEST(Workers, AHangIsCancelled) {
  Job job;
  job.stage = {{"how", "hang"}};
  job.keys = {"bad"};
  job.engine = {{"item_timeout", 0}};
  std::thread after([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    job.cancel = true;
  });
  const Ran ran = job.run();
  after.join();
  EXPECT_EQ(ran.error, "cancelled");
  EXPECT_LT(ran.seconds, 20);
}

TEST(Workers, AHangThatAsksWhetherToStopEndsAtItsLimit) {
  Job job;
  job.stage = {{"how", "poll"}};
  job.engine = {{"item_limit", 0.7}, {"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_EQ(ran.ends.at("bad"),
            "killed after 0.7 s at one sample, the most it may take (item_limit) in fault");
  EXPECT_EQ(ran.ends.at("c"), "kept");
}

TEST(Workers, SharedMemoryWithoutEndEndsAtItsLimit) {
  Job job;
  job.stage = {{"how", "share"}};
  job.engine = {{"item_memory", kMemory << 20}, {"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_NE(ran.ends.at("bad").find(too_much()), std::string::npos) << ran.ends.at("bad");
  EXPECT_EQ(ran.ends.at("c"), "kept");
  EXPECT_GE(most_held_by_a_worker(), kMemory << 20);
}

TEST(Workers, MemoryOfWhatAStageHasStartedEndsAtItsLimit) {
  Job job;
  job.stage = {{"how", "child"}};
  job.engine = {{"item_memory", 256 << 20}, {"item_retries", 0}};
  const Ran ran = job.run();
  const std::string& end = ran.ends.at("bad");
  EXPECT_TRUE(end.starts_with("killed when it and what it had started held ")) << end;
  EXPECT_TRUE(end.ends_with(" MiB of memory, more than the 256 MiB it may have (item_memory) in fault"))
      << end;
  EXPECT_EQ(ran.ends.at("c"), "kept");
}

TEST(Workers, WhatTheyHeldIsCountedAnewForEachJob) {
  Job job;
  job.keys = {"a"};
  job.stage = {{"how", "none"}, {"milliseconds", 300}};
  job.run();
  EXPECT_GT(most_held_by_a_worker(), 0u);
  count_held_anew();
  EXPECT_EQ(most_held_by_a_worker(), 0u);
}

// This test has no noise tensor, but the function must exist: in a process it was a null pointer.
TEST(Workers, NoiseThatCannotBeGivenCostsOneSample) {
  for (const auto& [isolate, reason] : {std::pair{"none", "noise 'k': this run has none to give"},
                                        {"fault", "noise: the key, `like` or `out` is null"}}) {
    Job job;
    job.stage = {{"how", "noise"}};
    job.engine = {{"isolate", {isolate}}};
    const Ran ran = job.run();
    EXPECT_EQ(ran.ends.at("bad"), reason);
    EXPECT_EQ(ran.ends.at("c"), "kept");
  }
}

// Memory that a process receives does not count as its own: 30 MiB come in, 30 MiB of its own go out, and the
// limit is below 60.
TEST(Workers, WhatItIsGivenIsNotItsOwn) {
  Job job;
  job.keys = {"a", "b", "c"};
  job.stage = {{"how", "none"}};
  job.media = 30 << 20;
  job.engine = {{"item_memory", 55 << 20}, {"item_retries", 0}};
  for (const auto& [key, end] : job.run().ends) EXPECT_EQ(end, "kept") << key;
}

}  // namespace
}  // namespace kinora::core
