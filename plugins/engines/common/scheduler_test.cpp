// The run of a pipeline with made-up instances in made-up time (run_testing.hpp): deadlines, retries, deaths,
// order, back-pressure. Times are exact.
#include <malloc.h>
#include <random>

#include "plugins/engines/common/run_testing.hpp"

namespace kinora::engines::made_up {
namespace {

using Outcomes = std::vector<std::pair<std::string, std::string>>;
using Calls = std::vector<std::pair<double, std::string>>;

TEST(MadeUpRun, TakesTheWorkDividedByTheCores) {
  Pipeline p;
  p.inputs = 100;
  p.add("short", {}, passing(1));
  p.add("long", {0}, consuming(3));
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 100u);
  EXPECT_NEAR(p.seconds(), 100 * (1 + 3) / 4.0, 3) << "the last samples may leave three cores idle";
  EXPECT_EQ(p.last_report["expected"].get<double>(), 1.0);
}

TEST(MadeUpRun, AnOrderedStageTakesSamplesInTheOrderOfTheSource) {
  Pipeline p;
  p.inputs = 30;
  // Later inputs are ready first, and each emits three samples.
  p.add("cut", {}, [](const std::string& key, int) {
    return Play{100.0 - std::stod(key), {key + "-0", key + "-1", key + "-2"}};
  });
  auto& write = p.add("write", {0}, consuming(0.1));
  write.needs.ordered = 1;
  EXPECT_EQ(p.run(), "");
  ASSERT_EQ(write.calls.size(), 91u);  // and finish()
  for (size_t i = 0; i < 90; ++i)
    EXPECT_EQ(write.calls[i].second, std::to_string(i / 3) + "-" + std::to_string(i % 3));
  std::map<std::string, int> clips;
  for (const auto& [key, outcome] : p.outcomes) {
    if (key.find('-') == std::string::npos)
      EXPECT_EQ(clips[key], 3) << "a video is reported after its clips";
    else
      ++clips[key.substr(0, key.find('-'))];
  }
}

TEST(MadeUpRun, RepeatsReadingAfterABackoffThatGrowsAndThenFails) {
  Pipeline p;
  p.inputs = 1;
  p.settings.retries = 2;
  p.settings.backoff = 0.2;
  auto& read = p.add("read", {}, [](const std::string&, int) {
    return Play{1, {}, 0, false, KINORA_ERROR_IO, "the disk is slow"};
  });
  EXPECT_EQ(p.run(), "");
  ASSERT_EQ(read.calls.size(), 4u);  // and finish()
  EXPECT_NEAR(read.calls[1].first - read.calls[0].first, 1.2, 1e-6);
  EXPECT_NEAR(read.calls[2].first - read.calls[1].first, 1.8, 1e-6);
  EXPECT_EQ(p.outcomes, (Outcomes{{"0", "the disk is slow"}}));
  EXPECT_EQ(p.last_report["stages"][0]["retried"], 2);
}

// While an attempt waits, the other samples continue.
TEST(MadeUpRun, ABackoffEndsAtOnceWhenTheRunIsCancelled) {
  Pipeline p;
  p.inputs = 20;
  p.settings.backoff = 3600;
  p.cancel_at = 50;
  auto& read = p.add("read", {}, [](const std::string& key, int) {
    return key == "3" ? Play{1, {}, 0, false, KINORA_ERROR_IO, "slow"} : Play{1, {key}};
  });
  EXPECT_EQ(p.run(), "cancelled");
  EXPECT_NEAR(p.seconds(), 50, 0.03);
  EXPECT_EQ(p.outcomes.size(), 19u);
  EXPECT_EQ(read.attempts["3"], 1);
}

// A worker that is at work when another one is refused has two seconds.
TEST(MadeUpRun, ARefusalWaitsForOtherWorkersButNotForEver) {
  for (const double others : {1.5, kUntilCancelled}) {
    Pipeline p;
    p.inputs = 10;
    p.add("ask", {}, [&](const std::string& key, int) {
      if (key == "0") return Play{1, {}, 0, false, KINORA_ERROR_REFUSED, "the key is not accepted"};
      return Play{key == "1" ? others : 0.5, {key}};
    });
    EXPECT_EQ(p.run(), "stage 'ask': the key is not accepted");
    EXPECT_NEAR(p.seconds(), others < 10 ? 1.5 : 3.0, 0.05);
    for (const auto& [key, outcome] : p.outcomes) EXPECT_EQ(outcome, "kept") << key;
  }
}

TEST(MadeUpRun, ASampleWhoseProcessDiedIsTriedAgainAndWhatItEmittedIsPassedOnOnce) {
  Pipeline p;
  p.inputs = 3;
  p.settings.death_retries = 1;
  auto& cut = p.add("cut", {}, [](const std::string& key, int attempt) {
    Play play{1, {key + "-0", key + "-1"}};
    if (key == "1" && attempt == 1) play.emits = {"1-0"}, play.dies = true;
    if (key == "2") play.emits = {}, play.dies = true;
    return play;
  });
  cut.apart = true;
  auto& look = p.add("look", {0}, passing(1));
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(look.attempts, (std::map<std::string, int>{{"0-0", 1}, {"0-1", 1}, {"1-0", 1}, {"1-1", 1}}));
  std::map<std::string, std::string> outcomes(p.outcomes.begin(), p.outcomes.end());
  EXPECT_EQ(outcomes, (std::map<std::string, std::string>{{"0", "kept"},
                                                          {"0-0", "kept"},
                                                          {"0-1", "kept"},
                                                          {"1", "kept"},
                                                          {"1-0", "kept"},
                                                          {"1-1", "kept"},
                                                          {"2", "killed by signal 9 in cut, twice"}}));
  EXPECT_EQ(p.last_report["stages"][0]["died"], 3);
}

// Any of the held samples may be to blame: each is tried alone, and only the one that kills fails.
TEST(MadeUpRun, HeldSamplesAreTriedAloneAfterADeath) {
  Pipeline p;
  p.inputs = 6;
  auto& batch = p.add("batch", {}, [](const std::string& key, int) {
    Play play{1, {}};
    play.holds = true;
    play.dies = key == "4";
    return play;
  });
  batch.apart = true;
  batch.workers = 1;
  EXPECT_EQ(p.run(), "");
  std::map<std::string, std::string> outcomes(p.outcomes.begin(), p.outcomes.end());
  ASSERT_EQ(outcomes.size(), 6u);
  for (const auto& [key, outcome] : outcomes)
    EXPECT_EQ(outcome, key == "4" ? "killed by signal 9 in batch, twice" : "kept") << key;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(batch.attempts[std::to_string(i)], 2) << i;
  EXPECT_EQ(batch.attempts["5"], 1);
}

TEST(MadeUpRun, AnInstanceThatDoesNotFitCostsAWorkerAndNoSample) {
  Pipeline p;
  p.inputs = 20;
  auto& net = p.add("net", {}, passing(1));
  net.can_start = [](int n) { return n <= 2; };
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 20u);
  EXPECT_EQ(net.most_busy, 2);
  EXPECT_NEAR(p.seconds(), 10, 1.1);
}

// No more samples wait for a stage than its queue holds, and a task that waits gives its core to the others.
TEST(MadeUpRun, AFullQueueStopsWhatFillsItAndFreesItsCore) {
  Pipeline p;
  p.inputs = 4;
  p.settings.queue = 3;
  p.settings.nodes.front().cores = 1;
  auto& cut = p.add("cut", {}, [](const std::string& key, int) {
    Play play{1, {}};
    for (int i = 0; i < 20; ++i) play.emits.push_back(key + "-" + std::to_string(i));
    return play;
  });
  int taken = 0, most = 0;
  p.add("slow", {0}, [&](const std::string&, int) {
    const int waiting = cut.emitted - taken++;
    if (waiting > most) most = waiting;
    return Play{10, {}};
  });
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 84u);
  EXPECT_NEAR(p.seconds(), 4 * 1 + 80 * 10, 0.5) << "one core is never idle";
  EXPECT_EQ(most, 3);
}

TEST(MadeUpRun, KeepsTheBoundOfMemoryWithASlowConsumer) {
  Pipeline p;
  p.inputs = 10;
  p.input_bytes = 1 << 20;
  p.memory = 8 << 20;
  p.add("cut", {}, [](const std::string& key, int) {
    Play play{0.1, {}, 1 << 20};
    for (int i = 0; i < 20; ++i) play.emits.push_back(key + "-" + std::to_string(i));
    return play;
  });
  p.add("slow", {0}, consuming(5)).workers = 1;
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 210u);
  const auto peak = p.last_report["memory"]["peak"].get<uint64_t>();
  EXPECT_LE(peak, p.memory + (1 << 16));
  EXPECT_GE(peak, p.memory / 2);
}

std::vector<Tokens> nodes_of(std::initializer_list<double> cores) {
  std::vector<Tokens> out;
  for (const double n : cores) out.push_back({n});
  return out;
}

TEST(MadeUpRun, SpreadsTheWorkOverTheNodesAndLoadsNoneMoreThanItHas) {
  Pipeline p;
  p.inputs = 120;
  p.settings.nodes = nodes_of({3, 2, 1});
  auto& short_one = p.add("short", {}, passing(1));
  auto& pairs = p.add("pairs", {0}, consuming(2));
  pairs.needs.cores = 2;
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 120u);
  EXPECT_LE(pairs.most_busy, 2) << "the node of one core has no room for two";
  EXPECT_GE(short_one.most_busy, 2);
  // 120 x (1 + 2 x 2) core seconds on 6 cores, of which one may serve the first stage alone.
  EXPECT_GE(p.seconds(), 100);
  EXPECT_LE(p.seconds(), 150);
}

TEST(MadeUpRun, ALostNodeCostsNoSampleAndNoRetryOfItsOwn) {
  Pipeline p;
  p.inputs = 60;
  p.settings.nodes = nodes_of({2, 2});
  p.settings.death_retries = 0;
  p.lose_at(5.5, 1);
  auto& one = p.add("one", {}, passing(1));
  one.apart = true;
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 60u);
  for (const auto& [key, outcome] : p.outcomes) EXPECT_EQ(outcome, "kept") << key;
  EXPECT_EQ(p.last_report["stages"][0]["retried"], 2) << "those that were on the node";
  // 5 seconds of 4 cores are 20 samples, the other 40 have 2 cores.
  EXPECT_NEAR(p.seconds(), 5 + 40 / 2, 2);
  EXPECT_EQ(one.most_busy, 4);
}

TEST(MadeUpRun, WhatOneNodeHasIsNotThatOfAnother) {
  Pipeline p;
  p.inputs = 20;
  p.settings.nodes = {{4, 0, 0, 2, 0}, {4}};
  auto& decode = p.add("decode", {}, passing(1));
  decode.needs.nvdec = 1;
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(decode.most_busy, 2);
  EXPECT_EQ(p.last_report["stages"][0]["limit"], 2) << "the other node has no decoder";
}

// finish() counts on the first node, and comes although that never has what the stage needs.
TEST(MadeUpRun, AStageThatNeedsMoreThanTheFirstNodeHasFinishes) {
  for (const bool gpus : {true, false}) {
    SCOPED_TRACE(gpus ? "GPUs" : "cores");
    Pipeline p;
    p.inputs = 20;
    p.settings.nodes = {{1}, {4, 4}};
    auto& decode = p.add("decode", {}, passing(1));
    gpus ? decode.needs.gpus = 1 : decode.needs.cores = 4;
    auto& write = p.add("write", {0}, consuming(0.1));
    write.needs.ordered = 1;
    EXPECT_EQ(p.run(), "");
    EXPECT_EQ(p.outcomes.size(), 20u);
    EXPECT_GE(decode.calls.size(), 21u) << "and finish()";
    EXPECT_EQ(write.calls.size(), 21u);
  }
}

TEST(MadeUpRun, AllInstancesAreOnNodesThatHaveWhatTheyNeed) {
  for (const int64_t workers : {0, 4}) {
    Pipeline p;
    p.inputs = 40;
    p.settings.nodes = {{4}, {4, 4}};
    auto& decode = p.add("decode", {}, consuming(1));
    decode.needs.gpus = 1;
    decode.workers = workers;
    EXPECT_EQ(p.run(), "");
    EXPECT_EQ(decode.most_busy, 4);
    EXPECT_NEAR(p.seconds(), 40 / 4, 1);
    EXPECT_EQ(p.last_report["stages"][0]["limit"], 4);
  }
}

TEST(MadeUpRun, ANodeThatIsTooSmallForOneStageWorksForAnother) {
  Pipeline p;
  p.inputs = 60;
  p.settings.nodes = nodes_of({1, 2});
  p.add("short", {}, passing(1));
  auto& pairs = p.add("pairs", {0}, consuming(1));
  pairs.needs.cores = 2;
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 60u);
  EXPECT_NEAR(p.seconds(), 60 * (1 + 2) / 3.0, 5);
}

// Not even their keys. A tenth of the inputs has ended at the first look at the heap, nearly all at the second one.
TEST(MadeUpRun, KeepsNothingOfInputsThatHaveEnded) {
  Pipeline p;
  p.inputs = 10000;
  p.settings.queue = 8;
  p.add("cut", {}, [](const std::string& key, int) { return Play{0.01, {key + "-0", key}}; });
  p.add("look", {0}, passing(0.01));
  p.add("write", {0, 1}, consuming(0.001));
  std::array<size_t, 2> ended{}, bytes{};
  const auto look = [&](size_t i) {
    ended[i] = p.outcomes.size();
    decltype(p.outcomes)().swap(p.outcomes);
    for (Act& act : p.acts) decltype(act.calls)().swap(act.calls), act.attempts.clear();
    bytes[i] = ::mallinfo2().uordblks;
  };
  p.at(10, [&] { look(0); });
  p.at(80, [&] { look(1); });
  EXPECT_EQ(p.run(), "");
  EXPECT_GT(ended[1], 30000u) << "four of each";
  EXPECT_LT(bytes[1], bytes[0] + ended[1]) << "less than a byte of each";
}

// The plan is made when the times are known, and leaves the cores beside the GPUs to the stage that needs both. Until
// then, as without a plan, the second stage takes them.
TEST(MadeUpRun, FollowsThePlanOverNodes) {
  Pipeline p;
  p.inputs = 400;
  p.settings.nodes = {{4, 4}, {16}};
  auto& decode = p.add("decode", {}, passing(2));
  decode.needs.gpus = 1;
  p.add("look", {0}, consuming(6));
  EXPECT_EQ(p.run(), "");
  // 4 GPUs do two a second, for which 12 of the 16 other cores suffice.
  EXPECT_GE(p.seconds(), 200);
  EXPECT_LE(p.seconds(), 240);
  EXPECT_NEAR(p.last_report["expected"].get<double>(), 2, 0.01);
}

// The second stage is on the first node, whose cores are busy for long; the other node works all the time.
TEST(MadeUpRun, AStageThatWaitsForItsNodeDoesNotStopTheOthers) {
  Pipeline p;
  p.inputs = 40;
  p.settings.nodes = nodes_of({1, 1});
  p.add("long", {}, passing(10));
  auto& write = p.add("write", {0}, consuming(0.1));
  write.needs.ordered = 1;
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 40u);
  EXPECT_NEAR(p.seconds(), 40 * 10 / 2.0, 12);
}

TEST(MadeUpRun, ANodeThatComesTakesItsShare) {
  Pipeline p;
  p.inputs = 60;
  p.settings.nodes = nodes_of({1});
  p.add_at(20.5, 3);
  auto& one = p.add("one", {}, passing(1));
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 60u);
  EXPECT_EQ(one.most_busy, 4);
  EXPECT_NEAR(p.seconds(), 20 + 40 / 4, 1.5);
  EXPECT_EQ(p.last_report["cores"].get<double>(), 4);
}

TEST(MadeUpRun, WithoutANodeItWaitsForTheNextOne) {
  Pipeline p;
  p.inputs = 20;
  p.settings.nodes = nodes_of({1, 1});
  p.lose_at(5.5, 0);
  p.lose_at(6.5, 1);
  p.add_at(20, 2);
  p.add_at(20, 1);
  auto& one = p.add("one", {}, passing(1));
  one.apart = true;
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.outcomes.size(), 20u);
  for (const auto& [key, outcome] : p.outcomes) EXPECT_EQ(outcome, "kept") << key;
  EXPECT_GE(one.most_busy, 3);
  EXPECT_NEAR(p.seconds(), 20 + 9 / 3, 2);
}

TEST(MadeUpRun, ASampleWhoseNodesAreLostAgainAndAgainFails) {
  Pipeline p;
  p.inputs = 1;
  p.settings.nodes = nodes_of({1, 1, 1, 1});
  p.settings.node_losses = 2;
  for (size_t node = 0; node < 3; ++node) p.lose_at(100 * static_cast<double>(node) + 50, node);
  auto& one = p.add("one", {}, passing(100));
  one.apart = true;
  EXPECT_EQ(p.run(), "");
  ASSERT_EQ(p.outcomes.size(), 1u);
  EXPECT_NE(p.outcomes[0].second.find("3 times"), std::string::npos) << p.outcomes[0].second;
}

// Random graphs, times, losses and bounds: every input has one outcome, every run ends, and a second run is the
// same. With a bound it may differ, since the ledger knows shared bytes by their addresses.
class AnySeed : public ::testing::TestWithParam<uint32_t> {};

void make(Pipeline& p, uint32_t seed) {
  std::mt19937 random(seed);
  const auto up_to = [&](uint32_t n) { return static_cast<uint32_t>(random() % (n + 1)); };
  p.inputs = 1 + up_to(30);
  p.input_bytes = up_to(1) * 5000;
  p.memory = up_to(2) == 0 ? 0 : 2000 + up_to(30000);
  p.settings.queue = 1 + up_to(5);
  p.settings.nodes.front().cores = 1 + up_to(5);
  const uint32_t n = 1 + up_to(3);
  for (uint32_t i = 0; i < n; ++i) {
    std::vector<uint32_t> from;
    if (i > 0) from.push_back(up_to(i - 1));
    const uint32_t salt = static_cast<uint32_t>(random()), bytes = up_to(4000), most = up_to(3);
    auto& act = p.add("s" + std::to_string(i), from, [=](const std::string& key, int attempt) {
      std::mt19937 of_key(salt + static_cast<uint32_t>(std::hash<std::string>{}(key)));
      Play play{0.01 * static_cast<double>(of_key() % 300), {}, bytes};
      for (uint32_t k = 0; k < of_key() % (most + 1); ++k)
        play.emits.push_back(key + "-" + static_cast<char>('a' + i) + std::to_string(k));
      const uint32_t what = of_key() % 10;
      if (what < 3) play.emits.push_back(key);
      if (what == 3) play.emits.clear(), play.holds = true;
      if (what == 4 && attempt < 3) play.emits.clear(), play.status = KINORA_ERROR_IO;
      if (what == 5) play.status = KINORA_ERROR_DATA, play.message = "bad";
      if (what == 6 && attempt == 1) play.dies = true;
      if (what == 7 && of_key() % 3 == 0) play.dies = true;
      return play;
    });
    act.apart = up_to(1) == 0;
    act.starting = 0.1 * up_to(20);
    act.workers = up_to(2);
    if (!act.apart) {
      act.process = [inner = act.process](const std::string& key, int attempt) {
        Play play = inner(key, attempt);
        play.dies = false;
        return play;
      };
    } else if (up_to(3) == 0) {
      act.needs.ordered = 2, act.workers = 0;
    }
  }
}

TEST_P(AnySeed, EndsEveryInputOnceAndIsTheSameAgain) {
  for (uint32_t seed = GetParam(); seed < GetParam() + 50; ++seed) {
    SCOPED_TRACE(seed);
    Pipeline p, second;
    make(p, seed);
    make(second, seed);
    EXPECT_EQ(p.run(), "");
    EXPECT_EQ(second.run(), "");
    if (p.memory == 0) {
      EXPECT_EQ(p.outcomes, second.outcomes);
    }
    std::map<std::string, int> ends;
    for (const auto& [key, outcome] : p.outcomes) ++ends[key];
    for (int64_t i = 0; i < p.inputs; ++i) EXPECT_EQ(ends[std::to_string(i)], 1) << i;
    if (HasFailure()) return;
  }
}

// The same work on one node that stays, and on several of which all but one are lost at random times.
TEST_P(AnySeed, LosingNodesChangesNoOutcome) {
  for (uint32_t seed = GetParam(); seed < GetParam() + 25; ++seed) {
    SCOPED_TRACE(seed);
    Pipeline whole, losing;
    std::mt19937 random(seed);
    make(whole, seed);
    make(losing, seed);
    for (Pipeline* p : {&whole, &losing}) {
      p->memory = 0;  // with a bound, what is held in excess of it is not tried again
      for (Act& act : p->acts) act.apart = true;
    }
    losing.settings.nodes.assign(2 + random() % 3, Tokens{static_cast<double>(1 + random() % 3)});
    for (size_t node = 1; node < losing.settings.nodes.size(); ++node)
      losing.lose_at(0.01 * static_cast<double>(random() % 1500),
                     (node + seed) % losing.settings.nodes.size());
    EXPECT_EQ(whole.run(), "");
    EXPECT_EQ(losing.run(), "");
    std::multiset<std::pair<std::string, bool>> kept[2];
    for (const auto& [key, outcome] : whole.outcomes) kept[0].emplace(key, outcome == "kept");
    for (const auto& [key, outcome] : losing.outcomes) kept[1].emplace(key, outcome == "kept");
    EXPECT_EQ(kept[0], kept[1]);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnySeed, ::testing::Values(0, 50, 100, 150));

}  // namespace
}  // namespace kinora::engines::made_up
