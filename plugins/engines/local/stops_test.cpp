// Events that end a run before its last sample.
#include "plugins/engines/local/engine_testing.hpp"

namespace kinora::local {
namespace {

TEST(LocalEngine, EndsWithTheFirstErrorOfTheSourceTheOwnerOrFinish) {
  for (int where = 0; where < 3; ++where) {
    Pipeline p;
    p.add("a", {}, pass).finish = [&](const Emit&, const kinora::Run&) {
      if (where == 2) throw Error(KINORA_ERROR_IO, "finish is broken");
    };
    p.inputs(1000, 100);
    if (where == 0)
      p.next = [inner = p.next, n = 0](kinora_sample** out) mutable {
        if (++n == 20) return set_error(KINORA_ERROR_IO, "the list is broken");
        return inner(out);
      };
    if (where == 1)
      p.on_done = [n = 0](const kinora_outcome&) mutable {
        return ++n == 20 ? set_error(KINORA_ERROR_IO, "the record is broken") : KINORA_OK;
      };
    EXPECT_EQ(p.run(), where == 0   ? "the list is broken"
                       : where == 1 ? "the record is broken"
                                    : "stage 'a': finish is broken");
    EXPECT_EQ(p.code, KINORA_ERROR_IO);
  }
  EXPECT_EQ(testing::TestSample::alive, 0) << "samples leaked";
}

// For example a trace on a full disk: an exception leaves run() while a stage waits for room, and the stage
// must not wait forever.
TEST(LocalEngine, AnExceptionOfTheOwnersThreadEndsTheRunWhileAStageWaitsForRoom) {
  Pipeline p;
  p.memory = 1 << 20;
  std::atomic<int> emitted{0};
  p.add("cut", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < 1000; ++i) {
      Sample clip(std::string(in.key()) + "-" + std::to_string(i));
      clip.set("mp4", std::vector<uint8_t>(100000));
      emit(std::move(clip));
      ++emitted;
    }
  });
  p.inputs(1);
  p.on_done = [&](const kinora_outcome&) -> int32_t {
    for (int before = -1; emitted != before; sleep_ms(100)) before = emitted;
    throw Error(KINORA_ERROR_IO, "the trace cannot be written");
  };
  EXPECT_EQ(p.run(), "the trace cannot be written");
  EXPECT_LT(emitted, 1000);
}

TEST(LocalEngine, AFullDiskInAnOrderedStageEndsTheRun) {
  Pipeline p;
  p.add("shard", {}, [](Sample in, const Emit&, const kinora::Run&) {
     if (in.key() == "5") throw Error(KINORA_ERROR_NO_MEMORY, "no space left on the device of /x; free some");
   }).ordered = true;
  p.inputs(100);
  EXPECT_EQ(p.run(), "stage 'shard': no space left on the device of /x; free some");
  EXPECT_EQ(p.counts()["failed"], 0);
}

TEST(LocalEngine, AStageThatCanDoNoSampleEndsTheRun) {
  Pipeline p;
  p.add("ask", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    if (in.key() == "5") throw Error(KINORA_ERROR_REFUSED, "the key is not accepted");
    emit(std::move(in));
  });
  p.inputs(1000);
  EXPECT_EQ(p.run(), "stage 'ask': the key is not accepted");
  EXPECT_EQ(p.code, KINORA_ERROR_INVALID);
  EXPECT_EQ(p.counts()["failed"], 0);
}

TEST(LocalEngine, StartComesOnceForEachInstanceBeforeItsFirstSample) {
  std::atomic<int> started{0};
  Pipeline p;
  auto& act = p.add("a", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    EXPECT_GE(started, 1);
    emit(std::move(in));
  });
  act.start = [&](const kinora::Run&) { ++started; };
  act.workers = 2;
  p.inputs(50);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts()["kept"], 50);
  EXPECT_GE(started, 1);
  EXPECT_LE(started, act.made) << "an instance that only says its resources does not start";
}

TEST(LocalEngine, AStageThatCannotStartEndsTheRun) {
  Pipeline p;
  p.add("load", {}, [](Sample in, const Emit& emit, const kinora::Run&) { emit(std::move(in)); }).start =
      [](const kinora::Run&) { throw Error(KINORA_ERROR_NOT_FOUND, "weights.pt: no such file"); };
  p.inputs(5);
  EXPECT_EQ(p.run(), "stage 'load': weights.pt: no such file");
  EXPECT_EQ(p.counts()["failed"], 0);
}

// Only the caller of the run can stop it.
TEST(LocalEngine, AStageThatSaysItWasCancelledIsInError) {
  const std::string why = "returned KINORA_ERROR_CANCELLED although the run was not asked to stop";
  {
    Pipeline p;
    p.add("a", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
      if (in.key() == "1") throw Error(KINORA_ERROR_CANCELLED, "I cancel");
      emit(std::move(in));
    });
    p.inputs(3);
    EXPECT_EQ(p.run(), "");
    EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 2}, {"failed", 1}}));
    for (const auto& [key, o] : p.outcomes) EXPECT_EQ(o.reason, key == "1" ? why : "") << key;
  }
  for (const bool holds : {false, true}) {
    Pipeline p;
    auto& act = p.add("a", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
      if (holds) return emit.hold();
      emit(std::move(in));
    });
    act.workers = 1;
    act.finish = [](const Emit&, const kinora::Run&) { throw Error(KINORA_ERROR_CANCELLED, "I cancel"); };
    p.inputs(2);
    EXPECT_EQ(p.run(), holds ? "" : "stage 'a': " + why);
    EXPECT_EQ(p.code, holds ? KINORA_OK : KINORA_ERROR_FAILED);
    EXPECT_EQ(p.counts()["failed"], holds ? 2 : 0);
  }
}

// Seconds from a cancellation in the middle of long tasks and blocked emissions to the return of run().
double seconds_to_stop() {
  Pipeline p;
  testing::Run run("", 4);
  p.cancel_through = &run;
  p.memory = 1 << 20;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < 1000; ++i) {
      Sample clip(std::string(in.key()) + "-" + std::to_string(i));
      clip.set("mp4", std::vector<uint8_t>(100000));
      emit(std::move(clip));
    }
  });
  p.add("long", {0}, [](Sample, const Emit&, const kinora::Run& r) {
    for (int i = 0; i < 100000; ++i) {
      r.check_cancelled();
      sleep_ms(1);
    }
  });
  p.inputs(1000);
  std::chrono::steady_clock::time_point cancelled;
  std::thread after([&] {
    sleep_ms(100);
    cancelled = std::chrono::steady_clock::now();
    run.cancel = true;
  });
  EXPECT_EQ(p.run(), "cancelled");
  const auto stopped = std::chrono::steady_clock::now();
  after.join();
  EXPECT_EQ(p.code, KINORA_ERROR_CANCELLED);
  EXPECT_EQ(testing::TestSample::alive, 0);
  return std::chrono::duration<double>(stopped - cancelled).count();
}

TEST(LocalEngine, StopsWithin100MillisecondsOfACancellation) {
  double best = 1;  // of three, since a loaded machine wakes threads late
  for (int i = 0; i < 3 && best >= 0.1; ++i) best = std::min(best, seconds_to_stop());
  EXPECT_LT(best, 0.1);
}

TEST(LocalEngine, RefusesProcessesWhereTheHostHasNone) {
  Pipeline p;
  p.add("a", {}, pass);
  p.options.isolate = {"all"};
  p.inputs(1);
  EXPECT_NE(p.run().find("starts no worker processes; set isolate = \"none\""), std::string::npos);
}

// As of hand-written C++ without the SDK's guards.
TEST(LocalEngine, AnExceptionThatLeavesAStageCostsOneSample) {
  kinora_stage table = *act_table();
  table.process = [](void*, kinora_sample* in, const kinora_emit*, const kinora_run*) -> int32_t {
    const std::string key(Sample::borrow(in).key());
    if (key == "1") throw std::runtime_error("the decoder is confused");
    if (key == "2") throw 42;
    return KINORA_OK;
  };
  Pipeline p;
  p.table = &table;
  p.add("a", {}, pass);
  p.inputs(4);
  EXPECT_EQ(p.run(), "");
  std::map<std::string, std::string> reasons;
  for (const auto& [key, outcome] : p.outcomes) reasons[key] = outcome.reason;
  EXPECT_EQ(reasons, (std::map<std::string, std::string>{{"0", ""},
                                                         {"1", "process threw the decoder is confused"},
                                                         {"2", "process threw an exception of unknown type"},
                                                         {"3", ""}}));
}

TEST(LocalEngine, AnExceptionThatLeavesAConstructorNamesTheStage) {
  kinora_stage table = *act_table();
  table.create = [](const kinora_host*, const kinora_options*) -> void* { throw 42; };
  Pipeline p;
  p.table = &table;
  p.add("a", {}, pass);
  p.inputs(1);
  EXPECT_EQ(p.run(), "stage 'a': create threw an exception of unknown type");
}

}  // namespace
}  // namespace kinora::local
