#include <fstream>
#include <random>
#include <set>

#include "engine_testing.hpp"

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
    if (n % 3 == 2) throw Error(KINORA_DATA, "bad bytes");
    emit(std::move(in));
  });
  p.inputs(30);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 10}, {"filtered", 10}, {"failed", 10}}));
  for (const auto& [key, o] : p.outcomes) {
    const std::string text = o.stage + "|" + o.reason + "|" + std::to_string(static_cast<int>(o.score)) +
                             "|" + std::to_string(o.status);
    EXPECT_EQ(text, o.end == KINORA_KEPT       ? "||0|0"
                    : o.end == KINORA_FILTERED ? "gate|gate.odd|" + key + "|0"
                                               : "gate|bad bytes|0|-7");
  }
}

TEST(LocalEngine, AStageFailsOneSampleAndTheOthersGoOn) {
  Pipeline p;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    // A made sample may have any key, even that of another input: `made` tells them apart.
    emit.fail(in.clone(in.key() == "1" ? "0" : "1"), "cut off");
    emit(in.clone("whole"));
    if (in.key() == "1") throw Error(KINORA_DATA, "the film ends early");
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
                                              {"1 input 2 the film ends early", 1}}));
}

// What a film is made into is told before the film: a run that breaks off in between repeats the film and
// loses no clip.
TEST(LocalEngine, TellsAFilmAfterAllItsClips) {
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

TEST(LocalEngine, GivesAnOrderedStageTheOrderOfTheSource) {
  for (uint64_t memory : {uint64_t{0}, uint64_t{40000}, uint64_t{1}}) {
    Pipeline p;
    p.memory = memory;
    std::vector<std::string> seen;
    std::mt19937 random(7);
    std::mutex mutex;
    const auto wait = [&] {
      int ms = 0;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        ms = static_cast<int>(random() % 4);
      }
      sleep_ms(ms);
    };
    p.add("cut", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
      const int n = std::stoi(std::string(in.key()));
      for (int i = 0; i < n % 4; ++i) {
        wait();
        Sample clip = in.clone(std::string(in.key()) + "-" + std::to_string(i));
        clip.set("mp4", std::vector<uint8_t>(5000));
        emit(std::move(clip));
      }
    });
    p.add("slow", {0}, [&](Sample in, const Emit& emit, const kinora::Run&) {
      wait();
      emit(std::move(in));
    });
    auto& last =
        p.add("write", {1}, [&](Sample in, const Emit&, const kinora::Run&) { seen.emplace_back(in.key()); });
    last.ordered = true;
    p.inputs(60);
    EXPECT_EQ(p.run(), "");
    std::vector<std::string> expected;
    for (int n = 0; n < 60; ++n)
      for (int i = 0; i < n % 4; ++i) expected.push_back(std::to_string(n) + "-" + std::to_string(i));
    EXPECT_EQ(seen, expected) << "memory " << memory;
    EXPECT_EQ(last.made, 1);
  }
}

TEST(LocalEngine, HoldsNoMoreThanItsMemory) {
  Pipeline p;
  p.memory = 10 << 20;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < 20; ++i) {
      Sample clip(std::string(in.key()) + "-" + std::to_string(i));
      clip.set("mp4", std::vector<uint8_t>(1 << 20));
      emit(std::move(clip));
    }
  });
  p.add("slow", {0}, [](Sample, const Emit&, const kinora::Run&) { sleep_ms(1); });
  p.inputs(10, 1 << 20);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 210u);
  const std::string& report = p.reports.back();
  const auto peak = std::stoull(report.substr(report.find("\"peak\":") + 7));
  EXPECT_LE(peak, p.memory + (1 << 16)) << "figures and what is left of told films";
  EXPECT_GE(peak, p.memory / 2);
}

TEST(LocalEngine, CountsBytesThatClonesShareOnce) {
  Pipeline p;
  p.memory = 3 << 20;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    for (int i = 0; i < 50; ++i) emit(in.clone(std::string(in.key()) + "-" + std::to_string(i)));
  });
  std::atomic<int> together{0}, most{0};
  p.add("look", {0}, [&](Sample, const Emit&, const kinora::Run&) {
    most = std::max<int>(most, ++together);
    sleep_ms(2);
    --together;
  });
  p.inputs(2, 1 << 20);
  EXPECT_EQ(p.run(), "");
  EXPECT_GE(most, 3) << "clips of one film must not count as fifty films";
}

TEST(LocalEngine, LetsASampleThatIsLargerThanTheBoundPassAlone) {
  Pipeline p;
  p.memory = 1000;
  std::atomic<int> together{0};
  p.add("grow", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    in.set("mp4", std::vector<uint8_t>(100000));
    emit(std::move(in));
  });
  p.add("look", {0}, [&](Sample, const Emit&, const kinora::Run&) {
    EXPECT_EQ(++together, 1);
    sleep_ms(1);
    --together;
  });
  p.inputs(20, 50000);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 20u);
}

TEST(LocalEngine, TriesInputAndOutputErrorsAgain) {
  Pipeline p;
  p.options.backoff = 0.001;
  std::mutex mutex;
  std::map<std::string, int> tries;
  p.add("read", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    const std::lock_guard<std::mutex> lock(mutex);
    const int n = std::stoi(std::string(in.key()));
    if (++tries[std::string(in.key())] <= n) throw Error(KINORA_IO, "the disk is away");
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
    throw Error(KINORA_IO, "the disk is away");
  });
  p.inputs(3);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 3}, {"failed", 3}}));
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
    EXPECT_TRUE(o.consumed && o.end == KINORA_KEPT);
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

TEST(LocalEngine, GivesEachBranchOfAGraphItsOwnCopy) {
  Pipeline p;
  p.memory = 100000;
  p.add("split", {}, pass);
  p.add("left", {0}, [](Sample in, const Emit& emit, const kinora::Run&) {
    in.set("side", "left");
    emit(std::move(in));
  });
  p.add("right", {0}, [](Sample in, const Emit& emit, const kinora::Run&) {
    sleep_ms(1);
    in.set("side", "right");
    emit(std::move(in));
  });
  std::vector<std::string> seen;
  p.add("join", {1, 2}, [&](Sample in, const Emit&, const kinora::Run&) {
     seen.push_back(std::string(in.key()) + std::string(in.need("side")));
   }).ordered = true;
  p.inputs(30, 3000);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 60u);
  std::vector<std::string> expected;
  for (int i = 0; i < 30; ++i) {
    expected.push_back(std::to_string(i) + "left");
    expected.push_back(std::to_string(i) + "@rightright");
  }
  EXPECT_EQ(seen, expected);
}

// What is kept of two branches must not be called the same; branches of branches and of the source are told apart too.
TEST(LocalEngine, CallsTheCopiesOfBranchesAfterThem) {
  Pipeline p;
  p.add("clip.one", {}, pass);
  p.add("clip.two", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    emit(in.clone(std::string(in.key()) + "-0000"));
    emit(std::move(in));
  });
  p.add("same", {0}, pass);
  p.add("same", {0}, pass);
  p.inputs(1);
  EXPECT_EQ(p.run(), "");
  std::set<std::string> ends;
  for (const auto& [key, o] : p.outcomes) ends.insert(key + (o.made ? " made" : ""));
  EXPECT_EQ(ends, (std::set<std::string>{"0", "0@same-3 made", "0@clip-two made", "0@clip-two-0000 made"}));
}

TEST(LocalEngine, FinishesAStageAfterAllItsInputsAndBeforeTheNext) {
  Pipeline p;
  std::atomic<int> in_a{0}, in_b{0}, finished_a{0};
  auto& a = p.add("a", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    ++in_a;
    emit(std::move(in));
  });
  a.finish = [&](const Emit& emit, const kinora::Run&) {
    EXPECT_EQ(in_a, 50);
    emit(Sample("rest-" + std::to_string(finished_a++)));
  };
  p.add("b", {0}, [&](Sample, const Emit&, const kinora::Run&) { ++in_b; }).finish = [&](const Emit&,
                                                                                         const kinora::Run&) {
    EXPECT_EQ(finished_a, a.made);
    EXPECT_EQ(in_b, 50 + a.made);
  };
  p.inputs(50);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 50u + static_cast<size_t>(a.made));
}

TEST(LocalEngine, EndsWithTheFirstErrorOfTheSourceTheOwnerOrFinish) {
  for (int where = 0; where < 3; ++where) {
    Pipeline p;
    p.add("a", {}, pass).finish = [&](const Emit&, const kinora::Run&) {
      if (where == 2) throw Error(KINORA_IO, "finish is broken");
    };
    p.inputs(1000, 100);
    if (where == 0)
      p.next = [inner = p.next, n = 0](kinora_sample** out) mutable {
        if (++n == 20) return set_error(KINORA_IO, "the list is broken");
        return inner(out);
      };
    if (where == 1)
      p.on_done = [n = 0](const kinora_outcome&) mutable {
        return ++n == 20 ? set_error(KINORA_IO, "the record is broken") : KINORA_OK;
      };
    EXPECT_EQ(p.run(), where == 0   ? "the list is broken"
                       : where == 1 ? "the record is broken"
                                    : "stage 'a': finish is broken");
    EXPECT_EQ(p.code, KINORA_IO);
  }
  EXPECT_EQ(testing::TestSample::alive, 0) << "samples leaked";
}

TEST(LocalEngine, AFullDiskInAnOrderedStageEndsTheRun) {
  Pipeline p;
  p.add("shard", {}, [](Sample in, const Emit&, const kinora::Run&) {
     if (in.key() == "5") throw Error(KINORA_NO_MEMORY, "no space left on the device of /x; free some");
   }).ordered = true;
  p.inputs(100);
  EXPECT_EQ(p.run(), "stage 'shard': no space left on the device of /x; free some");
  EXPECT_EQ(p.counts()["failed"], 0);
}

TEST(LocalEngine, AStageThatCanDoNoSampleEndsTheRun) {
  Pipeline p;
  p.add("ask", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    if (in.key() == "5") throw Error(KINORA_STOP, "the key is not accepted");
    emit(std::move(in));
  });
  p.inputs(1000);
  EXPECT_EQ(p.run(), "stage 'ask': the key is not accepted");
  EXPECT_EQ(p.code, KINORA_INVALID);
  EXPECT_EQ(p.counts()["failed"], 0);
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
  EXPECT_EQ(p.code, KINORA_CANCELLED);
  EXPECT_EQ(testing::TestSample::alive, 0);
  return std::chrono::duration<double>(stopped - cancelled).count();
}

TEST(LocalEngine, StopsWithin100MillisecondsOfACancellation) {
  double best = 1;  // of three: a loaded machine is slow to wake threads
  for (int i = 0; i < 3 && best >= 0.1; ++i) best = std::min(best, seconds_to_stop());
  EXPECT_LT(best, 0.1);
}

// Lets tasks go only in fours: none returns before three others are at work at the same time.
class Fours {
 public:
  void meet() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int round = here_ / 4;
    ++here_;
    changed_.notify_all();
    const bool met = changed_.wait_for(lock, std::chrono::seconds(20), [&] { return here_ / 4 > round; });
    EXPECT_TRUE(met) << "a core stays idle while there is work";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
};

TEST(LocalEngine, GivesAllCoresToTheStageThatHasTheWork) {
  for (const bool first : {true, false}) {
    Pipeline p;
    p.threads = 4;
    Fours fours;
    p.add("a", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
      if (first) fours.meet();
      emit(std::move(in));
    });
    p.add("b", {0}, [&](Sample, const Emit&, const kinora::Run&) {
      if (!first) fours.meet();
    });
    p.inputs(40);
    EXPECT_EQ(p.run(), "");
  }
}

TEST(LocalEngine, RunsNoMoreTasksThanItsCoresCarry) {
  Pipeline p;
  p.threads = 4;
  std::atomic<int> cores{0};
  const auto work = [&](int n) {
    EXPECT_LE(cores += n, 4);
    sleep_ms(1);
    cores -= n;
  };
  p.add("wide", {}, [&](Sample in, const Emit& emit, const kinora::Run& run) {
     EXPECT_EQ(run.threads(), 3);
     work(3);
     emit(std::move(in));
   }).cores = 3;
  p.add("narrow", {0}, [&](Sample, const Emit&, const kinora::Run&) { work(1); });
  p.inputs(50);
  EXPECT_EQ(p.run(), "");
}

// No device carries more than itself, and an instance stays where it is: its model is there.
TEST(LocalEngine, SharesDevicesByTheirParts) {
  for (const double total : {2.0, 1.5}) {
    Pipeline p;
    p.threads = 8;
    p.options.gpus = total;
    std::mutex mutex;
    std::map<int, double> used;
    double most = 0;
    const auto work = [&](double share) {
      return [&, share](Sample in, const Emit& emit, const kinora::Run& run) {
        const int device = run.get()->device_id;
        {
          const std::lock_guard<std::mutex> lock(mutex);
          used[device] += share;
          EXPECT_LT(device, 2);
          EXPECT_LE(used[device], std::min(1.0, total - device) + 1e-9);
          double all = 0;
          for (const auto& [d, u] : used) all += u;
          most = std::max(most, all);
        }
        sleep_ms(2);
        {
          const std::lock_guard<std::mutex> lock(mutex);
          used[device] -= share;
        }
        emit(std::move(in));
      };
    };
    p.add("small", {}, work(0.25)).gpus = 0.25;
    p.add("half", {0}, work(0.5)).gpus = 0.5;
    p.stages[0].cores = p.stages[1].cores = 0.5;
    p.inputs(80);
    EXPECT_EQ(p.run(), "");
    EXPECT_EQ(p.counts()["kept"], 80);
    EXPECT_GE(most, total - 0.25) << "devices stay idle while there is work";
  }
}

// Decoders and encoders are shared as cores are: as many at once as there are, and who wants more than that has all of them.
TEST(LocalEngine, SharesHardwareCoders) {
  for (const int64_t there : {0, 2, 3}) {
    Pipeline p;
    p.threads = 8;
    p.options.nvdec = there;
    p.options.nvenc = 1;
    std::atomic<int> decoding{0}, encoding{0}, most{0};
    const int room = static_cast<int>(std::max<int64_t>(1, there));
    const auto work = [&](std::atomic<int>& busy, int each, int all) {
      return [&, each, all](Sample in, const Emit& emit, const kinora::Run&) {
        EXPECT_LE(busy += each, all);
        if (&busy == &decoding) most = std::max<int>(most, busy);
        sleep_ms(2);
        busy -= each;
        emit(std::move(in));
      };
    };
    p.add("decode", {}, work(decoding, 1, room)).nvdec = 1;
    p.add("greedy", {0}, work(decoding, room, room)).nvdec = 7;
    p.add("encode", {1}, work(encoding, 1, 1)).nvenc = 1;
    for (auto& act : p.stages) act.cores = 0.1;
    p.inputs(60);
    EXPECT_EQ(p.run(), "");
    EXPECT_EQ(p.counts()["kept"], 60);
    EXPECT_EQ(most, room) << "decoders stay idle while there is work";
    const auto stages = nlohmann::json::parse(p.reports.back())["stages"];
    EXPECT_EQ(stages[0]["limit"], room);
    EXPECT_EQ(stages[1]["limit"], 1);
    EXPECT_EQ(stages[2]["limit"], 1);
  }
}

// Who goes on after a break has to know: what was made of a clip comes again only with that clip.
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
  const std::map<std::string, int32_t> expected{{"0", 0}, {"0x", 1}, {"0y", 1}, {"0-0", 1}, {"0-0x", 2}, {"0-0y", 2}};
  EXPECT_EQ(made, expected);
}

// It costs itself: neither the first of its name nor the run.
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
      expected[in + name + " made cutstage 'cut' gave two samples called '" + in + name +
               "', and this is the second; mend the stage: each needs a key of its own"] = 1;
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
  for (const auto& [key, o] : p.outcomes) ends[key].push_back(o.end == KINORA_KEPT ? "kept" : o.reason);
  for (auto& [key, told] : ends) std::sort(told.begin(), told.end());
  const auto second = [](const std::string& key) {
    return "stage 'cut' gave two samples called '" + key + "', and this is the second; mend the stage: each needs a key of its own";
  };
  EXPECT_EQ(ends, (std::map<std::string, std::vector<std::string>>{
                      {"0", {"kept", second("0")}}, {"a", {"kept", second("a")}}, {"b", {"damaged", second("b")}}}));
}

TEST(LocalEngine, AnErrorInFinishCostsWhatWasStillKeptBack) {
  Pipeline p;
  Act& act = p.add("batch", {}, [](Sample, const Emit& emit, const kinora::Run&) { emit.hold(); });
  act.workers = 1;
  act.finish = [](const Emit& emit, const kinora::Run&) {
    emit(Sample("0"));
    throw Error(KINORA_IO, "finish is broken");
  };
  p.add("rest", {0}, pass);
  p.inputs(3);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 1}, {"failed", 2}}));
  for (const auto& [key, o] : p.outcomes) EXPECT_EQ(o.reason, o.end == KINORA_KEPT ? "" : "finish is broken") << key;
}

TEST(LocalEngine, RefusesProcessesWhereTheHostHasNone) {
  Pipeline p;
  p.add("a", {}, pass);
  p.options.isolate = {"all"};
  p.inputs(1);
  EXPECT_NE(p.run().find("starts no worker processes; set isolate = \"none\""), std::string::npos);
}

TEST(LocalEngine, WritesATraceOfWhatItsWorkersDid) {
  const std::string folder = ::testing::TempDir() + "kinora-trace";
  Pipeline p;
  testing::Run run(folder, 2);
  p.cancel_through = &run;
  p.options.profile = true;
  p.add("a", {}, pass);
  p.add("b", {0}, [](Sample in, const Emit&, const kinora::Run&) {
    if (in.key() == "3") throw Error(KINORA_DATA, "bad \"bytes\"\n");
  });
  p.inputs(10);
  EXPECT_EQ(p.run(), "");
  std::ifstream in(folder + "/trace.json");
  const auto trace = nlohmann::json::parse(in);
  std::map<std::string, int> spans, results;
  for (const auto& e : trace["traceEvents"])
    if (e["ph"] == "X") ++spans[e["cat"]], ++results[e["args"]["result"]];
  EXPECT_EQ(spans, (std::map<std::string, int>{{"a", 10}, {"b", 10}}));
  EXPECT_EQ(results, (std::map<std::string, int>{{"ok", 19}, {"bad \"bytes\"\n", 1}}));
}

// The slow stage bounds, whether by its workers or by the cores it takes.
TEST(LocalEngine, ReportsWhatBoundsIt) {
  Pipeline p;
  p.threads = 4;
  p.add("quick", {}, pass);
  p.add("writer", {0}, [](Sample, const Emit&, const kinora::Run&) { sleep_ms(30); }).ordered = true;
  p.inputs(80);
  EXPECT_EQ(p.run(), "");
  ASSERT_GE(p.reports.size(), 2u);
  const auto report = nlohmann::json::parse(p.reports[1]);
  EXPECT_EQ(report["bound"], "writer");
  EXPECT_NEAR(report["stages"][1]["busy"].get<double>(), 1, 0.2);
  EXPECT_EQ(report["stages"][1]["limit"], 1);
}

// Two long films are soon read, and the first has not ended: nothing is known of how long they take.
TEST(LocalEngine, IsNotBoundByASourceThatHasEnded) {
  Pipeline p;
  p.threads = 4;
  p.add("quick", {}, pass);
  p.add("films", {0}, [](Sample, const Emit&, const kinora::Run&) { sleep_ms(1300); }).ordered = true;
  p.inputs(2);
  EXPECT_EQ(p.run(), "");
  int waited = 0;
  for (const auto& text : p.reports) {
    const auto report = nlohmann::json::parse(text);
    if (report["inputs"] != 2) continue;
    EXPECT_NE(report["bound"], "source") << text;
    if (report["stages"][1]["queue"] != 1) continue;
    EXPECT_EQ(report["bound"], "films") << text;
    ++waited;
  }
  EXPECT_GE(waited, 1);
}

TEST(LocalEngine, IsBoundByASourceThatItWaitsFor) {
  Pipeline p;
  p.threads = 4;
  p.add("quick", {}, consume);
  p.next = [n = 0](kinora_sample** out) mutable {
    if (n == 3) return int32_t{KINORA_END};
    sleep_ms(500);
    *out = Sample(std::to_string(n++)).release();
    return int32_t{KINORA_OK};
  };
  EXPECT_EQ(p.run(), "");
  ASSERT_GE(p.reports.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(p.reports[0])["bound"], "source") << p.reports[0];
}

TEST(LocalEngine, RefusesAGraphThatRunsBackAndWorkersOfAnOrderedStage) {
  Pipeline back;
  back.add("a", {1}, pass);
  back.add("b", {0}, pass);
  back.inputs(1);
  EXPECT_NE(back.run().find("stage 'a' takes the output of stage 1, which does not come before it"),
            std::string::npos);
  Pipeline wide;
  auto& act = wide.add("shard", {}, consume);
  act.ordered = true;
  act.workers = 2;
  wide.inputs(1);
  EXPECT_NE(wide.run().find("remove 'workers'"), std::string::npos);
}

}  // namespace
}  // namespace kinora::local
