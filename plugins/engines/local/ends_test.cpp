// Each sample has one outcome: kept, filtered or failed, with its stage and its reason.
#include <set>

#include <nlohmann/json.hpp>

#include "plugins/engines/local/engine_testing.hpp"

namespace kinora::local {
namespace {

using ::testing::Test;

TEST(LocalEngine, KeepsEveryInputOfAPipelineWithoutStages) {
  Pipeline p;
  p.inputs(100);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 100}}));
}

TEST(LocalEngine, FinishesStagesThatGetNoInput) {
  Pipeline p;
  int finished = 0;
  p.add("a", {}, pass).finish = [&](const Emit&, const kinora::Run&) { ++finished; };
  p.inputs(0);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(finished, 1);
}

TEST(LocalEngine, TellsEachEndOnceWithItsStageReasonAndScore) {
  Pipeline p;
  p.add("gate", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    const int n = std::stoi(std::string(in.key()));
    if (n % 3 == 1) return emit.drop(std::move(in), "gate.odd", n);
    if (n % 3 == 2) throw Error(KINORA_ERROR_DATA, "bad bytes");
    emit(std::move(in));
  });
  p.inputs(30);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 10}, {"filtered", 10}, {"failed", 10}}));
  for (const auto& [key, o] : p.outcomes) {
    const std::string text = o.stage + "|" + o.reason + "|" + std::to_string(static_cast<int>(o.score)) +
                             "|" + std::to_string(o.status);
    EXPECT_EQ(text, o.end == KINORA_OUTCOME_KEPT       ? "||0|0"
                    : o.end == KINORA_OUTCOME_FILTERED ? "gate|gate.odd|" + key + "|0"
                                                       : "gate|bad bytes|0|-7");
  }
}

TEST(LocalEngine, AStageFailsOneSampleAndTheOthersGoOn) {
  Pipeline p;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    // A made sample may have any key, even that of another input: `made` distinguishes them.
    emit.fail(in.clone(in.key() == "1" ? "0" : "1"), "cut off");
    emit(in.clone("whole"));
    if (in.key() == "1") throw Error(KINORA_ERROR_DATA, "the video ends early");
  });
  p.inputs(2);
  EXPECT_EQ(p.run(), "");
  std::map<std::string, int> ends;
  for (const auto& [key, o] : p.outcomes)
    ++ends[key + (o.made ? " made " : " input ") + std::to_string(o.end) + " " + o.reason];
  EXPECT_EQ(ends, (std::map<std::string, int>{{"0 made 2 cut off", 1},
                                              {"1 made 2 cut off", 1},
                                              {"whole made 0 ", 2},
                                              {"0 input 0 ", 1},
                                              {"1 input 2 the video ends early", 1}}));
}

// Samples made of a video are reported before the video: a run that is interrupted in between repeats the
// video and loses no clip.
TEST(LocalEngine, TellsAVideoAfterAllItsClips) {
  Pipeline p;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < 5; ++i) emit(in.clone(std::string(in.key()) + "-" + std::to_string(i)));
  });
  p.add("slow", {0}, [](Sample in, const Emit& emit, const kinora::Run&) {
    sleep_ms(std::hash<std::string_view>{}(in.key()) % 3);
    emit(std::move(in));
  });
  p.inputs(40, 1 << 20);
  EXPECT_EQ(p.run(), "");
  ASSERT_EQ(p.outcomes.size(), 240u);
  std::map<std::string, int> clips;
  for (const auto& [key, o] : p.outcomes) {
    if (key.find('-') != std::string::npos) {
      ++clips[key.substr(0, key.find('-'))];
    } else {
      EXPECT_EQ(clips[key], 5);
      EXPECT_TRUE(o.consumed);
      EXPECT_EQ(o.stage, "cut");
    }
  }
}

TEST(LocalEngine, TriesInputAndOutputErrorsAgain) {
  Pipeline p;
  p.options.backoff = 0.001;
  std::mutex mutex;
  std::map<std::string, int> tries;
  p.add("read", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    const std::lock_guard<std::mutex> lock(mutex);
    const int n = std::stoi(std::string(in.key()));
    if (++tries[std::string(in.key())] <= n) throw Error(KINORA_ERROR_IO, "the disk is away");
    emit(std::move(in));
  });
  p.inputs(6);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 3}, {"failed", 3}}));
  EXPECT_EQ(tries["1"], 2);
  EXPECT_EQ(tries["5"], 3);
}

TEST(LocalEngine, DoesNotTryAgainWhatHasEmitted) {
  Pipeline p;
  p.add("cut", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    emit(in.clone(std::string(in.key()) + "-0"));
    throw Error(KINORA_ERROR_IO, "the disk is away");
  });
  p.inputs(3);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 3}, {"failed", 3}}));
}

// A sample that was emitted or dropped has its outcome elsewhere; the stage's error for it is a figure, not a
// second outcome.
TEST(LocalEngine, AnErrorOverWhatHasGoneOnIsNoSecondEnd) {
  for (const bool drops : {false, true})
    for (const int32_t status : {KINORA_ERROR_FAILED, KINORA_ERROR_IO}) {
      Pipeline p;
      p.add("a", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
        emit(in.clone(std::string(in.key()) + "-0"));
        if (drops)
          emit.drop(in, "a.short", 1);
        else
          emit(in);
        throw Error(status, "too late");
      });
      p.inputs(3);
      EXPECT_EQ(p.run(), "");
      const auto expected = drops ? std::map<std::string, int>{{"kept", 3}, {"filtered", 3}}
                                  : std::map<std::string, int>{{"kept", 6}};
      EXPECT_EQ(p.counts(), expected);
      const auto figures = nlohmann::json::parse(p.reports.back())["stages"][0];
      EXPECT_EQ(figures["errors_after"], 3);
      EXPECT_EQ(figures["failed"], 0);
    }
}

// Forgetting emit() loses no error message and no outcome: only this figure shows it. An input that was cut, or is
// stored elsewhere, has a result.
TEST(LocalEngine, InputsWithoutAResultAreCounted) {
  const auto counted = [](const decltype(Act::process)& process, bool finishes = false) {
    Pipeline p;
    auto& stage = p.add("a", {}, process);
    if (finishes) stage.finish = [](const Emit& emit, const kinora::Run&) { emit(Sample("sum")); };
    p.inputs(3);
    EXPECT_EQ(p.run(), "");
    return nlohmann::json::parse(p.reports.back())["stages"][0]["without_result"].get<int>();
  };
  const auto never = [](Sample, const Emit&, const kinora::Run&) {};
  EXPECT_EQ(counted(never), 3);
  EXPECT_EQ(counted(never, true), 0) << "finish() makes one sample of all";
  EXPECT_EQ(counted([](Sample in, const Emit& emit, const kinora::Run&) {
              emit(Sample(std::string(in.key()) + "-0"));
            }),
            0);
  EXPECT_EQ(counted([](Sample in, const Emit& emit, const kinora::Run&) {
              emit.hold();
              emit.stored(in.key());
            }),
            0);
}

TEST(LocalEngine, ADropWithoutARuleIsTheStages) {
  for (const char* rule : {"", static_cast<const char*>(nullptr)}) {
    Pipeline p;
    p.add("gate", {},
          [&](Sample in, const Emit& emit, const kinora::Run&) { emit.drop(std::move(in), rule, 1); });
    p.inputs(1);
    EXPECT_EQ(p.run(), "");
    ASSERT_EQ(p.outcomes.size(), 1u);
    EXPECT_EQ(p.outcomes[0].second.reason, "gate");
  }
}

TEST(LocalEngine, ABatchKeepsItsInputsBackAndEndsEachOnce) {
  Pipeline p;
  std::vector<Sample> batch;
  auto& act = p.add("batch", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    emit.hold();
    batch.push_back(std::move(in));
    if (batch.size() < 4) return;
    for (auto& s : std::exchange(batch, {})) emit(std::move(s));
  });
  act.workers = 1;
  act.finish = [&](const Emit& emit, const kinora::Run&) {
    for (auto& s : std::exchange(batch, {})) emit.drop(std::move(s), "batch.rest", 0);
  };
  std::vector<std::string> seen;
  p.add("write", {0}, [&](Sample in, const Emit&, const kinora::Run&) {
     seen.emplace_back(in.key());
   }).ordered = true;
  p.inputs(10);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 8}, {"filtered", 2}}));
  EXPECT_EQ(seen, (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7"}));
}

TEST(LocalEngine, WhatAWriterKeepsBackEndsWhenItIsStored) {
  Pipeline p;
  std::vector<std::string> open;
  std::mutex mutex;
  std::set<std::string> closed;
  const auto close = [&](const Emit& emit) {
    sleep_ms(5);
    for (const auto& key : std::exchange(open, {})) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        closed.insert(key);
      }
      emit.stored(key);
    }
  };
  auto& act = p.add("shard", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    emit.hold();
    open.emplace_back(in.key());
    if (open.size() == 5) close(emit);
  });
  act.ordered = true;
  act.finish = [&](const Emit& emit, const kinora::Run&) { close(emit); };
  p.on_done = [&](const kinora_outcome& o) {
    const std::lock_guard<std::mutex> lock(mutex);
    EXPECT_TRUE(closed.contains(std::string(view(samples_api().key(o.sample)))));
    EXPECT_TRUE(o.consumed && o.end == KINORA_OUTCOME_KEPT);
    return KINORA_OK;
  };
  p.inputs(12);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 12u);
}

TEST(LocalEngine, ReportsWhatAStageKeptBackAndForgot) {
  Pipeline p;
  p.add("batch", {}, [](Sample, const Emit& emit, const kinora::Run&) { emit.hold(); });
  p.inputs(3);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"failed", 3}}));
}

// A resumed run must know this: a sample made of a clip is made again only together with that clip.
TEST(LocalEngine, TellsWhatWasMadeOfWhatAStageHadMade) {
  Pipeline p;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    emit(in.clone(std::string(in.key()) + "-0"));
    emit(in);
  });
  p.add("more", {0}, [](Sample in, const Emit& emit, const kinora::Run&) {
    emit.fail(in.clone(std::string(in.key()) + "x"), "no good");
    emit.drop(in.clone(std::string(in.key()) + "y"), "more.short", 1);
    emit(in);
  });
  std::map<std::string, int32_t> made;
  p.on_done = [&](const kinora_outcome& o) {
    made[std::string(view(samples_api().key(o.sample)))] = o.made;
    return int32_t{KINORA_OK};
  };
  p.inputs(1);
  EXPECT_EQ(p.run(), "");
  const std::map<std::string, int32_t> expected{{"0", 0},   {"0x", 1},   {"0y", 1},
                                                {"0-0", 1}, {"0-0x", 2}, {"0-0y", 2}};
  EXPECT_EQ(made, expected);
}

// Only the second sample fails: neither the first of its key nor the run does.
TEST(LocalEngine, FailsASecondSampleOfOneKey) {
  Pipeline p;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    for (const char* name : {"a", "b", "a"}) emit(in.clone(std::string(in.key()) + name));
    emit.drop(in.clone(std::string(in.key()) + "b"), "cut.short", 1);
    emit(in);
    emit(in.clone(in.key()));
  });
  p.inputs(2);
  EXPECT_EQ(p.run(), "");
  std::map<std::string, int> ends;
  for (const auto& [key, o] : p.outcomes) ++ends[key + (o.made ? " made " : " input ") + o.stage + o.reason];
  std::map<std::string, int> expected;
  for (const std::string in : {"0", "1"}) {
    expected[in + " input "] = 1;
    for (const std::string name : {"a", "b", ""}) {
      if (!name.empty()) expected[in + name + " made "] = 1;
      expected[in + name + " made cutstage 'cut' emitted two samples called '" + in + name +
               "', and this is the second; fix the stage: each sample needs its own key"] = 1;
    }
  }
  EXPECT_EQ(ends, expected);
}

TEST(LocalEngine, FailsASecondSampleOfOneKeyHoweverItEnds) {
  Pipeline p;
  Act& act = p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    emit(in.clone("a"));
    emit.fail(in.clone("a"), "damaged");
    emit.fail(in.clone("b"), "damaged");
    emit.fail(in.clone("b"), "damaged again");
    emit.hold();
  });
  act.finish = [](const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < 2; ++i) emit(Sample("0"));
  };
  p.inputs(1);
  EXPECT_EQ(p.run(), "");
  std::map<std::string, std::vector<std::string>> ends;
  for (const auto& [key, o] : p.outcomes)
    ends[key].push_back(o.end == KINORA_OUTCOME_KEPT ? "kept" : o.reason);
  for (auto& [key, told] : ends) std::sort(told.begin(), told.end());
  const auto second = [](const std::string& key) {
    return "stage 'cut' emitted two samples called '" + key +
           "', and this is the second; fix the stage: each sample needs its own key";
  };
  EXPECT_EQ(ends, (std::map<std::string, std::vector<std::string>>{{"0", {"kept", second("0")}},
                                                                   {"a", {"kept", second("a")}},
                                                                   {"b", {"damaged", second("b")}}}));
}

TEST(LocalEngine, AnErrorInFinishCostsWhatWasStillKeptBack) {
  Pipeline p;
  Act& act = p.add("batch", {}, [](Sample, const Emit& emit, const kinora::Run&) { emit.hold(); });
  act.workers = 1;
  act.finish = [](const Emit& emit, const kinora::Run&) {
    emit(Sample("0"));
    throw Error(KINORA_ERROR_IO, "finish is broken");
  };
  p.add("rest", {0}, pass);
  p.inputs(3);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 1}, {"failed", 2}}));
  for (const auto& [key, o] : p.outcomes)
    EXPECT_EQ(o.reason, o.end == KINORA_OUTCOME_KEPT ? "" : "finish is broken") << key;
}

}  // namespace
}  // namespace kinora::local
