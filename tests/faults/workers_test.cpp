// Stages in processes of their own, through the real host: what a stage does to its process costs one sample.
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "core/log.hpp"
#include "core/options.hpp"
#include "core/run/cancel.hpp"
#include "core/runtime.hpp"
#include "core/workers/sample_message.hpp"
#include "core/workers/service.hpp"
#include "core/workers/worker.hpp"
#include "kinora/abi/engine.h"
#include "kinora/sample.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

Runtime& runtime() {
  static Runtime* one = [] {
    auto* made = or_throw(Runtime::start({.plugin_dirs = {KINORA_FAULTY}, .log_level = "error"})).release();
    offer_workers({KINORA_PROGRAM, {KINORA_FAULTY}});
    return made;
  }();
  return *one;
}

struct Ran {
  std::map<std::string, std::string> ends;  // key: "kept", or how it ended
  std::map<std::string, int> times;         // that it was told
  std::set<std::string> pids;               // of the processes that let samples pass
  std::map<std::string, std::string> fields;
  std::set<std::string> environments;  // those processes started with
  std::string error;
  double seconds = 0;
};

// Runs stage/faulty over inputs of these keys on engine/local, each with a small, an empty and a large field and a tensor.
class Job {
 public:
  json engine = json::object(), stage = json::object();
  std::vector<std::string> keys{"a", "b", "bad", "c"};
  size_t media = 300000;  // bytes of field mp4, and a few more
  std::string url;
  std::atomic<bool> cancel{false};

  Ran run() {
    Runtime& r = runtime();
    const auto local = or_throw(r.registry().open("engine/local"));
    const auto faulty = or_throw(r.registry().open("stage/faulty"));
    const Options engine_options = or_throw(Options::make(*local.spec, engine));
    const Options stage_options = or_throw(Options::make(*faulty.spec, stage));
    kinora_stage_spec spec{};
    spec.struct_size = sizeof spec;
    spec.name = "fault";
    spec.id = "stage/faulty";
    spec.options_json = stage_options.canonical().c_str();
    spec.stage = &faulty.table<kinora_stage>();
    spec.options = stage_options.abi();
    kinora_pipeline pipeline{};
    pipeline.struct_size = sizeof pipeline;
    pipeline.n_stages = 1;
    pipeline.stages = &spec;
    pipeline.memory = 64 << 20;
    pipeline.self = this;
    pipeline.next = [](void* self, kinora_sample** out) { return static_cast<Job*>(self)->next(out); };
    pipeline.done = [](void* self, const kinora_outcome* o) { return static_cast<Job*>(self)->done(*o); };
    kinora_run call{};
    call.struct_size = sizeof call;
    call.device_type = KINORA_DL_CPU;
    call.n_threads = 2;
    call.self = this;
    call.cancelled = [](void* self) { return static_cast<Job*>(self)->cancel ? KINORA_CANCELLED : KINORA_OK; };
    const auto start = std::chrono::steady_clock::now();
    try {
      void* self = local.table<kinora_engine>().create(host(), engine_options.abi());
      check(self ? KINORA_OK : KINORA_FAILED);
      const int32_t status = local.table<kinora_engine>().run(self, &pipeline, &call);
      const std::string message(view(host()->last_error(host())));
      local.table<kinora_engine>().destroy(self);
      if (status != KINORA_OK) ran_.error = message;
    } catch (const Error& e) {
      ran_.error = e.what();
    }
    ran_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return ran_;
  }

 private:
  int32_t next(kinora_sample** out) {
    if (at_ == keys.size()) return KINORA_END;
    Sample s(keys[at_]);
    s.set("json", "{\"n\": " + std::to_string(at_++) + "}");
    s.set("empty", "");
    if (!url.empty()) s.set("url", url);
    s.set("mp4", std::vector<uint8_t>(media + at_, static_cast<uint8_t>(at_)));
    s.set_tensor("frames", std::vector<uint8_t>(2 * 30 * 40 * 3 * 10, 9), {20, 30, 40, 3}, KINORA_DL_UINT, 8);
    *out = s.release();
    return KINORA_OK;
  }
  int32_t done(const kinora_outcome& o) {
    const Sample s = Sample::borrow(o.sample);
    const std::string key(s.key());
    ran_.ends[key] = o.end == KINORA_KEPT ? o.consumed ? "consumed" : "kept" : o.reason ? o.reason : "?";
    ++ran_.times[key];
    if (const auto pid = s.text("pid"); pid && ran_.pids.insert(std::string(*pid)).second) {
      std::ifstream file("/proc/" + std::string(*pid) + "/environ");
      ran_.environments.insert(std::string(std::istreambuf_iterator<char>(file), {}));
    }
    for (const auto& f : s.fields())
      if (f.name != "pid")
        ran_.fields[key + "." + std::string(f.name)] = {reinterpret_cast<const char*>(f.bytes.data()), f.bytes.size()};
    if (const auto* t = s.tensor("frames"))
      ran_.fields[key + ".frames"] = std::string(static_cast<const char*>(t->data), 2 * 30 * 40 * 3 * 10) +
                                     std::to_string(t->ndim) + std::to_string(t->shape[0]);
    return KINORA_OK;
  }
  size_t at_ = 0;
  Ran ran_;
};

TEST(Workers, ACrashCostsOneSampleAndItsReasonSaysHow) {
  const std::map<std::string, std::string> reasons{{"crash", "killed by signal 11 (SIGSEGV) in fault, twice"},
                                                   {"abort", "killed by signal 6 (SIGABRT) in fault, twice"},
                                                   {"exit", "its process ended by itself with code 3 in fault, twice"}};
  for (const auto& [how, reason] : reasons) {
    Job job;
    job.stage = {{"how", how}};
    const Ran ran = job.run();
    EXPECT_EQ(ran.error, "");
    EXPECT_EQ(ran.ends, (std::map<std::string, std::string>{{"a", "kept"}, {"b", "kept"}, {"bad", reason}, {"c", "kept"}}));
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
  EXPECT_EQ(ran.ends, (std::map<std::string, std::string>{
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

TEST(Workers, MemoryWithoutEndEndsAtItsLimit) {
  Job job;
  job.stage = {{"how", "allocate"}};
  job.engine = {{"item_memory", 256 << 20}, {"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_NE(ran.ends.at("bad").find("of memory, more than the 256 MiB it may have (item_memory) in fault"), std::string::npos)
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
    EXPECT_EQ(b.fields.at("bad.seen"), "yes") << "what a stage sets of an input that it does not hand on";
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
  // Its own process, or that of the bad one.
  EXPECT_TRUE(ran.ends.at("a") == "kept" ||
              ran.ends.at("a") == "kept back by a process that was killed by signal 11 (SIGSEGV) in fault")
      << ran.ends.at("a");
}

std::map<std::string, std::string> all_kept(const std::vector<std::string>& keys) {
  std::map<std::string, std::string> out;
  for (const auto& key : keys) out[key] = "kept";
  return out;
}

// The whole batch is in the process that dies; each goes on alone, with all its bytes, and nothing is told twice.
TEST(Workers, OfABatchOnlyTheSampleFailsThatKillsItsProcess) {
  for (const auto& [retries, reason] : {std::pair{0, "killed by signal 11 (SIGSEGV) in fault"}, {1, "killed by signal 11 (SIGSEGV) in fault, twice"}})
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

// An ordered stage says whether it keeps more than what it holds.
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

// A file in a folder of its own, gone when the object dies.
class Scratch {
 public:
  explicit Scratch(const char* name) : path_(fs::temp_directory_path() / (name + std::to_string(::getpid()))) { fs::remove(path_); }
  ~Scratch() { fs::remove(path_); }
  std::string name() const { return path_.string(); }
  std::string text() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  fs::path path_;
};

// Gone, or dead and not waited for by whoever has it now.
bool is_gone(const std::string& pid) {
  std::ifstream in("/proc/" + pid + "/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto at = text.rfind(')');
  return text.empty() || (at != std::string::npos && text.substr(at + 2, 1) == "Z");
}

TEST(Workers, WhatAStageHasStartedEndsWithItsProcess) {
  const std::map<std::string, std::string> reasons{{"crash", "killed by signal 11 (SIGSEGV) in fault"},
                                                   {"exit", "its process ended by itself with code 3 in fault"},
                                                   {"hang", "killed after 4 s without a sign of life (item_timeout) in fault"},
                                                   {"error", "bad bytes"},
                                                   {"none", "kept"}};
  for (const auto& [how, reason] : reasons) {
    const Scratch ids("kinora-started-");
    Job job;
    job.stage = {{"how", how}, {"starts", ids.name()}};
    job.engine = {{"item_retries", 0}, {"item_timeout", 4}};
    const Ran ran = job.run();
    EXPECT_EQ(ran.ends.at("c"), "kept");
    EXPECT_EQ(ran.ends.at("bad"), reason) << "a process that holds the socket of a dead one is not waited for";
    std::istringstream words(ids.text());
    int n = 0;
    for (std::string pid; words >> pid; ++n) {
      for (int i = 0; i < 500 && !is_gone(pid); ++i) ::usleep(10000);
      EXPECT_TRUE(is_gone(pid)) << how << ": process " << pid << " is left";
    }
    EXPECT_EQ(n, 2) << how;
  }
}

TEST(Workers, WhatAStageSaidLastIsInTheLog) {
  const Scratch file("kinora-log-");
  Job job;
  job.stage = {{"how", "crash"}, {"says", 100}};
  job.engine = {{"item_retries", 0}};
  runtime();
  Ran ran;
  {
    const auto log = or_throw(LogFile::open(file.name()));
    ASSERT_TRUE(set_log_level("info"));
    ran = job.run();
    ASSERT_TRUE(set_log_level("error"));
  }
  EXPECT_EQ(ran.ends.at("bad"), "killed by signal 11 (SIGSEGV) in fault");
  const std::string text = file.text();
  const auto lines = [&](const std::string& words) {
    int n = 0;
    for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(lines("faulty is about to fail"), 1) << text;
  EXPECT_EQ(lines("fault: its process wrote: line "), 40) << text;
  EXPECT_EQ(lines("fault: its process wrote: line 99 of stderr"), 1) << text;
  EXPECT_EQ(lines("fault: its process wrote 60 lines before these"), 1) << text;
}

TEST(Workers, AConstructorThatCrashesEndsTheRunAndNotThisProcess) {
  for (const char* where : {"constructor", "resources"}) {
    Job job;
    job.stage = {{"where", where}};
    for (const char* isolate : {"auto", "all", "fault"}) {
      job.engine = {{"isolate", {isolate}}};
      const Ran ran = job.run();
      EXPECT_EQ(ran.error,
                "stage 'fault': killed by signal 11 (SIGSEGV) while an instance was made, in its constructor or resources(); mend "
                "the plugin or the stage's options, or leave the stage out");
      EXPECT_TRUE(ran.ends.empty());
    }
  }
}

// The log while `run` is under way.
std::string logged(const std::function<void()>& run) {
  const Scratch file("kinora-heard-");
  runtime();
  const auto log = or_throw(LogFile::open(file.name()));
  EXPECT_TRUE(set_log_level("info"));
  run();
  EXPECT_TRUE(set_log_level("error"));
  return file.text();
}

int times(const std::string& text, const std::string& words) {
  int n = 0;
  for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++n;
  return n;
}

TEST(Workers, AConstructorThatHangsIsSaidAndHearsThatTheProgramIsToStop) {
  Ran ran;
  const std::string text = logged([&] {
    Job job;
    job.stage = {{"where", "constructor"}, {"how", "hang"}};
    std::thread after([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10600));
      cancel(true);
    });
    ran = job.run();
    after.join();
    cancel(false);
  });
  EXPECT_EQ(ran.error, "cancelled");
  EXPECT_GT(ran.seconds, 10.5);
  EXPECT_LT(ran.seconds, 13);
  EXPECT_EQ(times(text, "fault: still making its instance after 10 s"), 1) << text;
}

TEST(Workers, AConstructorThatHangsEndsAtTheLimit) {
  runtime();
  const auto faulty = or_throw(runtime().registry().open("stage/faulty"));
  const Options options = or_throw(Options::make(*faulty.spec, {{"where", "constructor"}, {"how", "hang"}}));
  const kinora_worker_spec spec{sizeof spec, 0, "fault", "stage/faulty", options.canonical().c_str(), 0, 0, 0};
  try {
    const Worker worker({KINORA_PROGRAM, {KINORA_FAULTY}, 0.7}, spec);
    ADD_FAILURE() << "made";
  } catch (const WorkerDied& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("killed after 0.7 s, the most that making an instance may take, while an instance was made"))
        << e.what();
  }
}

// As by a system that is short of memory: tried again, and neither the plugin nor the options are to blame.
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
  EXPECT_EQ(times(text, "fault: killed by signal 9 (SIGKILL, perhaps by the system for lack of memory) while its instance was made; trying again"), 1)
      << text;
  text = run({{"where", "constructor"}, {"how", "kill"}}, ran);
  EXPECT_EQ(ran.error,
            "stage 'fault': killed by signal 9 (SIGKILL, perhaps by the system for lack of memory) while an instance was made; free "
            "memory and run again");
  EXPECT_EQ(times(text, "trying again"), 2) << text;
  text = run({{"where", "constructor"}, {"how", "crash"}, {"milliseconds", 1}}, ran);
  EXPECT_NE(ran.error.find("killed by signal 11 (SIGSEGV) while an instance was made, in its constructor"), std::string::npos);
  EXPECT_EQ(times(text, "trying again"), 0) << text;
}

TEST(Workers, AClosedConnectionIsNoLackOfMemory) {
  Job job;
  job.stage = {{"how", "close"}};
  job.engine = {{"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_EQ(ran.ends.at("bad"), "killed: it closed its connection and went on in fault");
  EXPECT_EQ(ran.ends.at("c"), "kept");
}

TEST(Workers, AKilledProcessIsSaidToBe) {
  Job job;
  job.stage = {{"how", "kill"}};
  job.engine = {{"item_retries", 0}};
  EXPECT_EQ(job.run().ends.at("bad"), "killed by signal 9 (SIGKILL, perhaps by the system for lack of memory) in fault");
}

TEST(Workers, WhatAStagePrintedIsInTheLogWhenItsProcessDies) {
  Ran ran;
  const std::string text = logged([&] {
    Job job;
    job.stage = {{"how", "crash"}, {"prints", 3}, {"says", 1}};
    job.engine = {{"item_retries", 0}};
    ran = job.run();
  });
  for (const char* line : {"line 0 of stdout \xEF\xBF\xBD", "line 2 of stdout \xEF\xBF\xBD", "line 0 of stderr"})
    EXPECT_EQ(times(text, std::string("fault: its process wrote: ") + line), 1) << text;
  EXPECT_EQ(text.find('\xff'), std::string::npos);
}

TEST(Workers, ANumberOfCoresThatIsNoneIsSaid) {
  Job job;
  job.stage = {{"where", "number"}};
  EXPECT_EQ(job.run().error, "stage 'fault': asks for a number of cores that is no number (NaN); mend its resources()");
}

// A film of hours: longer than what is small, and in no place but this.
TEST(Workers, ALongFieldOfAnInputThatIsNotHandedOnReachesItsEnd) {
  for (const char* isolate : {"none", "fault"})
    for (const json& stage : {json{{"how", "none"}, {"keeps", true}, {"clips", 2}}, json{{"how", "none"}, {"keeps", true}},
                              json{{"how", "error"}, {"when", "a"}}}) {
      Job job;
      job.keys = {"a"};
      job.stage = stage;
      job.stage["sets"] = 6 << 20;
      job.engine = {{"isolate", {isolate}}};
      const Ran ran = job.run();
      EXPECT_EQ(ran.ends.at("a"), stage["how"] == "error" ? "bad bytes" : "consumed") << isolate << stage;
      EXPECT_TRUE(ran.fields.contains("a.shots.json") && ran.fields.at("a.shots.json") == std::string(6 << 20, '7')) << isolate << stage;
    }
}

// Three of six are told when finish() fails: it costs the others, and no run.
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
      EXPECT_TRUE(kept == 3 || (ordered == 0 && kept == 2)) << kept << ": one instance keeps all, or two have a share each";
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

TEST(Workers, ANameThatIsNoStageIsRefused) {
  Job job;
  job.engine = {{"isolate", {"fualt"}}};
  EXPECT_NE(job.run().error.find("isolate names 'fualt', which is no stage of this job"), std::string::npos);
}

TEST(Workers, AHangThatAsksWhetherToStopEndsAtItsLimit) {
  Job job;
  job.stage = {{"how", "poll"}};
  job.engine = {{"item_limit", 0.7}, {"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_EQ(ran.ends.at("bad"), "killed after 0.7 s at one sample, the most it may take (item_limit) in fault");
  EXPECT_EQ(ran.ends.at("c"), "kept");
}

TEST(Workers, SharedMemoryWithoutEndEndsAtItsLimit) {
  Job job;
  job.stage = {{"how", "share"}};
  job.engine = {{"item_memory", 256 << 20}, {"item_retries", 0}};
  const Ran ran = job.run();
  EXPECT_NE(ran.ends.at("bad").find("of memory, more than the 256 MiB it may have (item_memory) in fault"), std::string::npos)
      << ran.ends.at("bad");
  EXPECT_EQ(ran.ends.at("c"), "kept");
  EXPECT_GE(most_held_by_a_worker(), uint64_t{256} << 20);
}

// What it was given does not count as its own: 30 MiB come, as many of its own go back, and the limit lets no 60 pass.
TEST(Workers, WhatItIsGivenIsNotItsOwn) {
  Job job;
  job.keys = {"a", "b", "c"};
  job.stage = {{"how", "none"}};
  job.media = 30 << 20;
  job.engine = {{"item_memory", 55 << 20}, {"item_retries", 0}};
  for (const auto& [key, end] : job.run().ends) EXPECT_EQ(end, "kept") << key;
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Workers, InheritNoSecretsThatTheyHaveNoUseFor) {
  const Variable token("FAULTY_TOKEN", "hush1"), key("OPENAI_API_KEY", "hush2"), access("AWS_SECRET_ACCESS_KEY", "hush3"),
      proxy("https_proxy", "http://me:hush4@proxy"), mine("KINORA_SIGNING_KEY", "hush5"), setting("KINORA_FAULTY_SETTING", "heard1"),
      asked("FAULTY_KEY", "heard2");
  Job job;
  job.keys = {"a"};
  job.stage = {{"how", "none"}, {"key_env", "FAULTY_KEY"}};
  const Ran ran = job.run();
  ASSERT_EQ(ran.environments.size(), 1u);
  const std::string& seen = *ran.environments.begin();
  for (const char* wanted : {"PATH=", "KINORA_FAULTY_SETTING=heard1", "FAULTY_KEY=heard2"})
    EXPECT_NE(seen.find(wanted), std::string::npos) << wanted;
  EXPECT_EQ(seen.find("hush"), std::string::npos) << seen.substr(seen.find("hush"), 5);
}

TEST(Workers, KeysOfStoragesAreLentForWhatLiesThere) {
  const Variable access("AWS_SECRET_ACCESS_KEY", "hush"), token("FAULTY_TOKEN", "hush");
  const auto told = [](const char* url, const char* variable) {
    Job job;
    job.keys = {"a"};
    job.url = url;
    job.stage = {{"how", "none"}, {"tells", variable}};
    const Ran ran = job.run();
    const auto at = ran.fields.find("a.told");
    return at == ran.fields.end() ? "" : at->second;
  };
  EXPECT_EQ(told("s3://bucket/film.mp4", "AWS_SECRET_ACCESS_KEY"), "hush");
  EXPECT_EQ(told("s3://bucket/film.mp4", "FAULTY_TOKEN"), "");
  EXPECT_EQ(told("/films/film.mp4", "AWS_SECRET_ACCESS_KEY"), "");
}

// A film's frames, 40 MiB: on disk once, however often they go from process to process.
TEST(SampleMessage, WhatIsLargeGoesInAFileAndOnInTheSame) {
  runtime();
  const size_t size = 40 << 20;
  const auto piece_of_the_only = [](const Message& m) {
    EXPECT_EQ(m.shared.size(), 1u);
    struct stat s {};
    ::fstat(m.shared.at(0).get(), &s);
    char name[256] = {};
    [[maybe_unused]] const auto n = ::readlink(("/proc/self/fd/" + std::to_string(m.shared[0].get())).c_str(), name, sizeof name - 1);
    return std::tuple(s.st_ino, s.st_nlink, std::string(name));
  };
  Message first, second;
  {
    Sample s("k");
    s.set_tensor("frames", std::vector<uint8_t>(size, 5), {40, 1 << 20}, KINORA_DL_UINT, 8);
    put_sample(first, s);
  }
  const auto [inode, links, name] = piece_of_the_only(first);
  EXPECT_EQ(links, 0u);
  EXPECT_TRUE(name.starts_with(fs::temp_directory_path().string())) << name;
  const Sample taken = take_sample(first);
  first = {};
  put_sample(second, taken);
  EXPECT_EQ(std::get<0>(piece_of_the_only(second)), inode);
  const Sample again = take_sample(second);
  const auto* bytes = static_cast<const uint8_t*>(again.tensor("frames")->data);
  EXPECT_EQ(std::count(bytes, bytes + size, 5), static_cast<ptrdiff_t>(size));

  Message little;
  Sample s("k");
  s.set_tensor("frames", std::vector<uint8_t>(1 << 20, 5), {1 << 20}, KINORA_DL_UINT, 8);
  put_sample(little, s);
  EXPECT_TRUE(std::get<2>(piece_of_the_only(little)).starts_with("/memfd:"));
}

// What a stage has put into a file itself is sent as it lies there.
TEST(SampleMessage, AFileThatAStageHasMappedIsNotCopied) {
  runtime();
  const size_t size = 33 << 20;
  std::string name = (fs::temp_directory_path() / "faulty-XXXXXX").string();
  const Descriptor file(::mkstemp(name.data()));
  ::unlink(name.c_str());
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(size)), 0);
  auto* data = static_cast<uint8_t*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  data[size - 1] = 77;
  static int64_t shape[1];
  shape[0] = static_cast<int64_t>(size);
  kinora_dl_managed managed{};
  managed.major = 1;
  managed.tensor = {data, KINORA_DL_CPU, 0, 1, KINORA_DL_UINT, 8, 1, shape, nullptr, 0};
  Sample s("k");
  check(samples_api().set_tensor(s.get(), "frames", &managed));
  Message message;
  put_sample(message, s);
  struct stat sent {}, own {};
  ::fstat(message.shared.at(0).get(), &sent);
  ::fstat(file.get(), &own);
  EXPECT_EQ(sent.st_ino, own.st_ino);
  EXPECT_EQ(static_cast<const uint8_t*>(take_sample(message).tensor("frames")->data)[size - 1], 77);
  s.remove("frames");
  ::munmap(data, size);
}

// A worker is not trusted: what it sends is looked at before it is believed.
TEST(SampleMessage, RefusesWhatDoesNotHoldWhatItSays) {
  runtime();
  Message message;
  Sample s("k");
  s.set("txt", "abc");
  s.set("mp4", std::vector<uint8_t>(100000, 1));
  put_sample(message, s);
  EXPECT_EQ(take_sample(message).text("mp4")->size(), 100000u);
  const auto refused = [&](const std::function<void(json&)>& change) {
    json kept = message.head;
    change(message.head["sample"]);
    std::string why = "accepted";
    try {
      take_sample(message);
    } catch (const Error& e) {
      why = e.what();
    }
    message.head = kept;
    return why;
  };
  EXPECT_EQ(refused([](json& h) { h["fields"][0]["size"] = 4; }), "a worker sent a field that is not in its message");
  EXPECT_EQ(refused([](json& h) { h["fields"][0]["at"] = 1ull << 63; }), "a worker sent a field that is not in its message");
  EXPECT_EQ(refused([](json& h) { h["fields"][1]["size"] = 100001; }), "a worker sent memory that is not sealed or too short");
  EXPECT_EQ(refused([](json& h) { h["fields"][1]["piece"] = 1; }), "a worker sent a sample without its memory");
  EXPECT_NE(refused([](json& h) { h.erase("key"); }).find("what is no sample"), std::string::npos);
  for (const char* name : {"", "/etc/x", "../x", "a/../../x"}) {
    EXPECT_EQ(refused([&](json& h) { h["key"] = name; }), "a worker sent a name that is no name of a file")
        << name;
    EXPECT_EQ(refused([&](json& h) { h["fields"][0]["name"] = name; }),
              "a worker sent a name that is no name of a file")
        << name;
  }
  const json tensor{{"name", "t"}, {"code", 1}, {"bits", 8}, {"shape", {3}}, {"size", 3}, {"at", 0}};
  EXPECT_EQ(refused([&](json& h) { h["tensors"] = {tensor}; }), "accepted");
  for (const auto& [member, value] : {std::pair{"bits", json(4)},
                                      {"bits", json(16)},
                                      {"shape", json({1ll << 62, 4})},
                                      {"shape", json({-3})}})
    EXPECT_NE(refused([&](json& h) { h["tensors"] = {tensor}, h["tensors"][0][member] = value; }), "accepted")
        << member << value;
}

// Its parser would call itself once for every level.
TEST(Channel, RefusesAHeadThatIsNestedWithoutEnd) {
  for (const uint32_t depth : {1u, 10u, 60000u}) {
    auto [ours, theirs] = socket_pair();
    std::string text(depth, '\x81');  // arrays of one
    text += "\x01";
    std::string packet{'\xa1', '\x61', 'a'};  // {"a": [[[1]]]}
    packet += text;
    const auto size = static_cast<uint32_t>(packet.size());
    packet.insert(0, reinterpret_cast<const char*>(&size), sizeof size);
    ASSERT_EQ(::send(theirs.get(), packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
    Message message;
    const Channel channel(std::move(ours));
    if (depth < 16)
      EXPECT_EQ(channel.receive(message, 1000), Channel::Got::message);
    else
      EXPECT_THROW(channel.receive(message, 1000), Error);
  }
}

}  // namespace
}  // namespace kinora::core
