// Samples whose bytes are lost, in made-up time: whatever is lost and when, each outcome comes once and is the same.
#include <random>

#include "plugins/engines/common/run_testing.hpp"

namespace kinora::engines::made_up {
namespace {

using Ends = std::multiset<std::pair<std::string, std::string>>;

// Two clips of a video, which is consumed.
Play cutting(const std::string& key, int) { return Play{1, {key + "-0", key + "-1"}}; }
auto all = [](const std::string&, uint64_t) { return true; };
auto only(std::string key) {
  return [key = std::move(key)](const std::string& of, uint64_t) { return of == key; };
}

struct LosingPipeline : Pipeline {
  LosingPipeline() {
    numbers = true;
    settings.remakes = true;
    settings.death_retries = 0;
  }
  Act& add_apart(std::string name, std::vector<uint32_t> from, decltype(Act::process) process) {
    Act& act = add(std::move(name), std::move(from), std::move(process));
    act.apart = true;
    return act;
  }
  int calls_of(size_t act, const std::string& key) const {
    return static_cast<int>(std::count_if(acts[act].calls.begin(), acts[act].calls.end(),
                                          [&](const auto& call) { return call.second == key; }));
  }
  // Each sample has one outcome, "kept", and nothing is left in memory.
  void expect_all_kept(size_t n) {
    EXPECT_EQ(outcomes.size(), n);
    std::set<std::string> keys;
    for (const auto& [key, outcome] : outcomes) {
      EXPECT_EQ(outcome, "kept") << key;
      EXPECT_TRUE(keys.insert(key).second) << key << " was told twice";
    }
    EXPECT_EQ(last_report["memory"]["used"], 0);
  }
};

TEST(LostSamples, ThatWaitAreMadeAgainAndNothingElseIs) {
  LosingPipeline p;
  p.inputs = 3;
  p.add_apart("cut", {}, cutting);
  p.add_apart("look", {0}, passing(10)).workers = 1;
  p.lose_bytes_at(5, only("2-1"));
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(9);
  EXPECT_EQ(p.calls_of(0, "0"), 1);
  EXPECT_EQ(p.calls_of(0, "2"), 2);
  EXPECT_EQ(p.calls_of(1, "2-0"), 1);
  EXPECT_EQ(p.calls_of(1, "2-1"), 1);
  EXPECT_EQ(p.last_report["stages"][1]["in"], 6);
}

// 0 has left the pipeline and waits for 0-0.
TEST(LostSamples, ThatWaitForTheirReportAreMadeAgain) {
  LosingPipeline p;
  p.inputs = 1;
  p.add_apart("cut", {}, [](const std::string& key, int) { return Play{1, {key + "-0", key}}; });
  p.add_apart("look", {0}, [](const std::string& key, int) { return Play{key == "0" ? 1.0 : 100.0, {key}}; });
  p.lose_bytes_at(50, only("0"));
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(2);
  EXPECT_EQ(p.outcomes.back().first, "0");
  EXPECT_EQ(p.calls_of(0, "0"), 2);
  EXPECT_EQ(p.calls_of(1, "0"), 2);
  EXPECT_EQ(p.calls_of(1, "0-0"), 1) << "it was not lost";
}

// The source has ended and "cut" has finished: it makes the clip again in an instance that takes nothing else.
TEST(LostSamples, AreMadeAgainByAStageThatHasFinished) {
  LosingPipeline p;
  p.inputs = 2;
  auto& cut = p.add_apart("cut", {}, cutting);
  p.add_apart("look", {0}, passing(100)).workers = 1;
  int made = 0;
  p.at(150, [&] { made = cut.made; });
  p.lose_bytes_at(150, only("1-1"));
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(6);
  EXPECT_EQ(cut.made, made + 1);
}

TEST(LostSamples, WithTheirNodeAreMadeAgainWhileAStageWorksOnThem) {
  LosingPipeline p;
  p.inputs = 4;
  p.settings.nodes.assign(2, Tokens{2});
  p.add_apart("cut", {}, cutting);
  p.add_apart("look", {0}, [](const std::string& key, int) { return Play{10, {key + "-x", key}}; });
  p.lose_bytes_at(7, all);
  p.lose_at(7, 1);
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(4 + 8 + 8);
}

// The stage has emitted the clip and dies while it makes more of it; both are lost.
TEST(LostSamples, ThatAStageHasEmittedAndStillWorksOn) {
  LosingPipeline p;
  p.inputs = 1;
  p.settings.nodes.assign(2, Tokens{1});
  p.add_apart("cut", {}, cutting);
  p.add_apart("look", {0}, [](const std::string& key, int attempt) {
    Play play{10, {key, key + "-x"}};
    if (attempt == 1) play.emits.pop_back(), play.dies = true;
    return play;
  });
  p.add_apart("slow", {1}, consuming(100));
  p.lose_bytes_at(9, all);
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(1 + 2 + 2);
}

// What the ordered stage emitted is kept whole, but it needs its input once more.
TEST(LostSamples, ThatAnOrderedStageHasEmittedAndStillWorksOn) {
  LosingPipeline p;
  p.inputs = 1;
  p.add_apart("cut", {}, passing(1));
  auto& look = p.add_apart("look", {0}, [](const std::string& key, int attempt) {
    Play play{10, {key, key + "-x"}};
    if (attempt == 1) play.emits.pop_back(), play.dies = true;
    return play;
  });
  look.needs.ordered = 2;
  p.add_apart("slow", {1}, consuming(100));
  p.lose_bytes_at(5, all);
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(2);
}

// The stage fails on 0 after it has emitted a sample of it; 0 and 1 come back while it is busy with 2.
TEST(LostSamples, OfWhichSomeWasToldAreNotGivenToABatch) {
  LosingPipeline p;
  p.inputs = 3;
  p.settings.queue = 1;
  p.add_apart("cut", {}, [](const std::string& key, int attempt) {
    const std::array seconds{1.0, attempt == 1 ? 2.0 : 8.0, 6.0};
    return Play{seconds[std::stoul(key)], {key}};
  });
  auto& look = p.add_apart("look", {0}, [](const std::string& key, int attempt) {
    return Play{10, {key + "-x"}, 0, false, key == "0" && attempt == 1 ? KINORA_ERROR_DATA : KINORA_OK};
  });
  look.workers = 1;
  look.needs.batch = 2;
  p.lose_bytes_at(5, all);
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(6);
}

TEST(LostSamples, ThatAnInstanceHoldsAreMadeAgainOnlyIfItDies) {
  for (const bool dies : {false, true}) {
    LosingPipeline p;
    p.inputs = 3;
    p.settings.nodes.assign(2, Tokens{2});
    p.add_apart("cut", {}, [dies](const std::string& key, int) {
      return Play{key == "2" ? 50.0 : 1.0, {key}};
    });
    auto& hold = p.add_apart("hold", {0}, [](const std::string&, int) { return Play{1, {}, 0, true}; });
    hold.workers = 2;
    p.lose_bytes_at(30, all);
    if (dies) p.lose_at(30, 1);
    EXPECT_EQ(p.run(), "");
    p.expect_all_kept(3);
    if (!dies) {
      EXPECT_EQ(p.calls_of(0, "0") + p.calls_of(0, "1"), 2);
    }
  }
}

TEST(LostSamples, KeepTheirPlaceBeforeAnOrderedStage) {
  LosingPipeline p;
  p.inputs = 20;
  p.add_apart("cut", {}, cutting);
  p.add_apart("look", {0}, [](const std::string& key, int) {
    return Play{key == "1-0" ? 60.0 : 1.0, {key}};
  });
  auto& write = p.add("write", {1}, consuming(0.1));
  write.needs.ordered = 1;
  p.lose_bytes_at(40,
                  [](const std::string& key, uint64_t) { return std::hash<std::string>{}(key) % 2 == 0; });
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(60);
  ASSERT_EQ(write.calls.size(), 41u) << "each once, and finish()";
  for (size_t i = 0; i < 40; ++i)
    EXPECT_EQ(write.calls[i].second, std::to_string(i / 2) + "-" + std::to_string(i % 2));
}

// What it emitted is kept, so it does not see the same sample twice.
TEST(LostSamples, BehindAStageWithStateAreMadeAgainOfWhatItEmitted) {
  LosingPipeline p;
  p.inputs = 10;
  auto& number = p.add("number", {}, [](const std::string& key, int) { return Play{0.1, {key + "-0"}}; });
  number.needs.ordered = 1;
  auto& look = p.add_apart("look", {0}, passing(1));
  p.add_apart("slow", {1}, passing(20)).workers = 1;
  p.lose_bytes_at(15, all);
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(20);
  EXPECT_EQ(number.calls.size(), 11u) << "and finish()";
  EXPECT_GT(look.calls.size(), 15u);
}

// A sample of two inputs is made again of itself as it was made, if that is in this process; else it fails.
TEST(LostSamples, ThatWereMadeOfSeveralAreMadeAgainIfTheJoinIsHere) {
  for (const bool here : {true, false}) {
    LosingPipeline p;
    p.inputs = 2;
    auto& join = p.add("join", {}, [](const std::string& key, int) {
      return key == "0" ? Play{1, {}, 0, true} : Play{1, {"joint", "0", "1"}};
    });
    join.apart = !here;
    join.workers = 1;
    p.add_apart("look", {0}, [](const std::string& key, int) {
      return Play{key == "joint" ? 10.0 : 1.0, {key}};
    });
    p.add_apart("slow", {1}, passing(100)).workers = 1;
    p.lose_bytes_at(50, only("joint"));
    EXPECT_EQ(p.run(), "");
    EXPECT_EQ(p.calls_of(0, "0"), 1);
    EXPECT_EQ(p.calls_of(1, "joint"), here ? 2 : 1);
    if (here) {
      p.expect_all_kept(3);
      continue;
    }
    EXPECT_EQ(
        Ends(p.outcomes.begin(), p.outcomes.end()),
        (Ends{{"0", "kept"},
              {"1", "kept"},
              {"joint",
               "its bytes were lost, and it was made of 2 samples together, which is not done again; run the "
               "job again with --retry-failed"}}));
  }
}

TEST(LostSamples, FailWhenTheyAreLostAgainAndAgain) {
  LosingPipeline p;
  p.inputs = 1;
  p.settings.node_losses = 2;
  p.add_apart("cut", {}, cutting);
  p.add_apart("look", {0}, passing(10)).workers = 1;
  for (const double at : {3.0, 6.0, 9.0}) p.lose_bytes_at(at, only("0-1"));
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(Ends(p.outcomes.begin(), p.outcomes.end()),
            (Ends{{"0", "kept"},
                  {"0-0", "kept"},
                  {"0-1", "its bytes were lost 3 times; raise the engine's node_losses"}}));
}

TEST(LostSamples, FailIfTheStageDoesNotGiveThemAgain) {
  LosingPipeline p;
  p.inputs = 1;
  p.add_apart("cut", {}, [](const std::string& key, int attempt) {
    return attempt == 1 ? cutting(key, 1) : Play{1, {key + "-0", key + "-other"}};
  });
  p.add_apart("look", {0}, passing(10)).workers = 1;
  p.lose_bytes_at(5, only("0-1"));
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(
      Ends(p.outcomes.begin(), p.outcomes.end()),
      (Ends{
          {"0", "kept"},
          {"0-0", "kept"},
          {"0-1",
           "its bytes were lost, and it could not be made again of '0': stage 'cut': did not emit it again; "
           "fix the stage: it emits the same keys in the same order whenever it has the same input"}}));
}

// The memory is full, and a loss would give its room to the next inputs.
TEST(LostSamples, ComeBeforeNewInputs) {
  LosingPipeline p;
  p.inputs = 20;
  p.memory = 30000;
  p.settings.queue = 100;
  p.settings.nodes.front().cores = 2;
  auto& cut = p.add_apart("cut", {}, [](const std::string& key, int) {
    return Play{1, {key + "-0", key + "-1", key + "-2"}, 3000};
  });
  p.add_apart("slow", {0}, consuming(50)).workers = 1;
  size_t before = 0;
  p.at(40, [&] { before = cut.calls.size(); });
  std::set<std::string> lost;
  p.lose_bytes_at(40, [&](const std::string& key, uint64_t) {
    lost.insert(key.substr(0, key.find('-')));
    return true;
  });
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(80);
  ASSERT_GE(lost.size(), 2u);
  std::set<std::string> first;
  for (size_t i = 0; i < lost.size(); ++i) first.insert(cut.calls.at(before + i).second);
  EXPECT_EQ(first, lost);
}

// A clip of 500 bytes is lost while the others leave less room than the largest call of the stage may take.
TEST(LostSamples, AreMadeAgainAtOnceThoughTheMemoryIsFull) {
  LosingPipeline p;
  p.inputs = 10;
  p.memory = 30000;
  p.settings.queue = 100;
  p.settings.nodes.front().cores = 2;
  auto& cut = p.add_apart("cut", {}, [](const std::string& key, int) {
    return Play{1, {key + "-0", key + "-1", key + "-2"}, key == "2" ? 500u : 3000u};
  });
  p.add_apart("slow", {0}, consuming(50)).workers = 1;
  size_t before = 0;
  p.at(40, [&] { before = cut.calls.size(); });
  p.lose_bytes_at(40, only("2-1"));
  EXPECT_EQ(p.run(), "");
  p.expect_all_kept(10 + 30);
  EXPECT_LT(cut.calls.at(before - 1).first, 10) << "the memory was full";
  EXPECT_EQ(cut.calls.at(before).second, "2");
  EXPECT_NEAR(cut.calls.at(before).first, 40, 0.1);
}

// Random graphs, times, deaths and bounds, as much of which is lost as can be: at random times, with and without a
// node, before, during and after finish().
class AnyLosses : public ::testing::TestWithParam<uint32_t> {};

struct Plan {
  bool deaths, ordered, batches;
};

void add_random_acts(Pipeline& p, std::mt19937& random, const Plan& plan) {
  const auto up_to = [&](uint32_t n) { return static_cast<uint32_t>(random() % (n + 1)); };
  const uint32_t n = 1 + up_to(3);
  for (uint32_t i = 0; i < n; ++i) {
    std::vector<uint32_t> from;
    for (uint32_t k = 0; k < i; ++k)
      if (!plan.batches && up_to(2) == 0)
        from.push_back(k);  // two copies of one key do not belong into one batch
    if (from.empty() && i > 0) from.push_back(up_to(i - 1));
    const uint32_t salt = static_cast<uint32_t>(random()), most = up_to(2);
    auto& act = p.add("s" + std::to_string(i), from, nullptr);
    act.apart = up_to(3) > 0;
    act.starting = 0.1 * up_to(5);
    act.workers = act.apart ? up_to(2) : 1;  // on the first node, which stays
    if (plan.ordered && up_to(2) == 0) act.needs.ordered = act.apart ? 2 : 1, act.workers = 0;
    if (plan.batches && up_to(1) == 0) act.needs.batch = 2 + up_to(3);
    const bool batch = act.needs.batch > 1, in_order = act.needs.ordered != 0, apart = act.apart;
    const bool may_die = plan.deaths && act.apart, may_hold = plan.deaths && act.needs.ordered != 1 && !batch;
    act.process = [=](const std::string& key, int attempt) {
      std::mt19937 of_key(salt + static_cast<uint32_t>(std::hash<std::string>{}(key)));
      Play play{0.01 * static_cast<double>(of_key() % 300), {}, of_key() % 2000};
      for (uint32_t k = 0; k < of_key() % (most + 1); ++k)
        play.emits.push_back(key + "-" + static_cast<char>('a' + i) + std::to_string(k));
      // Else it was made of what the instance holds too, and what processes made of several is not made again.
      if (apart)
        for (const auto& made : play.emits) play.parents.emplace(made, key);
      const uint32_t what = of_key() % 12;
      if (what < 5) play.emits.insert(what % 2 && !batch ? play.emits.begin() : play.emits.end(), key);
      if (what == 5 && may_hold) play.emits.clear(), play.holds = true;
      if (what == 6 && attempt < 3 && !in_order) play.emits.clear(), play.status = KINORA_ERROR_IO;
      if (what == 7) play.status = KINORA_ERROR_DATA, play.message = "bad";
      play.dies = may_die && attempt == 1 && (what == 1 || what == 8);
      return play;
    };
  }
}

void make_any(Pipeline& p, uint32_t seed) {
  std::mt19937 random(seed);
  p.inputs = 1 + static_cast<int64_t>(random() % 6);
  p.input_bytes = random() % 2 * 2000;
  const Plan plan{random() % 2 == 0, random() % 2 == 0, random() % 2 == 0};
  // What is held in excess of a bound is not tried again.
  p.memory = plan.deaths ? 0 : std::array<uint64_t, 3>{0, 3000, 20000}[random() % 3];
  p.settings.queue = 1 + random() % 5;
  p.settings.node_losses = 1000;
  p.settings.nodes.assign(1 + random() % 3, Tokens{static_cast<double>(1 + random() % 3)});
  add_random_acts(p, random, plan);
}

// Of each ordered act the keys in the order in which it first saw them.
std::vector<std::vector<std::string>> orders_of(const Pipeline& p) {
  std::vector<std::vector<std::string>> out;
  for (const Act& act : p.acts) {
    if (!act.needs.ordered) continue;
    auto& order = out.emplace_back();
    std::set<std::string> seen;
    for (const auto& [when, key] : act.calls)
      if (seen.insert(key).second && key != "finish") order.push_back(key);
  }
  return out;
}

void add_losses(Pipeline& p, uint32_t seed) {
  std::mt19937 random(seed + 1000000);
  p.numbers = p.settings.remakes = true;
  for (uint32_t n = 1 + random() % 4; n > 0; --n) {
    const double at = 0.01 * static_cast<double>(random() % 1200);
    const uint32_t salt = static_cast<uint32_t>(random()), one_of = 1 + random() % 4;
    p.lose_bytes_at(at, [salt, one_of](const std::string&, uint64_t number) {
      return std::mt19937(salt + static_cast<uint32_t>(number))() % one_of == 0;
    });
    if (n < p.settings.nodes.size() && random() % 2) p.lose_at(at, n);
  }
}

TEST_P(AnyLosses, ChangeNoOutcomeAndNoOrder) {
  for (uint32_t seed = GetParam(); seed < GetParam() + 250; ++seed) {
    SCOPED_TRACE(seed);
    Pipeline whole, losing;
    make_any(whole, seed);
    make_any(losing, seed);
    add_losses(losing, seed);
    EXPECT_EQ(whole.run(), "");
    EXPECT_EQ(losing.run(), "");
    Ends ends[2];
    for (const auto& [key, outcome] : whole.outcomes)
      ends[0].emplace(key, outcome == "kept" ? "kept" : "failed");
    for (const auto& [key, outcome] : losing.outcomes)
      ends[1].emplace(key, outcome == "kept" ? "kept" : "failed");
    EXPECT_EQ(ends[0], ends[1]);
    EXPECT_EQ(orders_of(whole), orders_of(losing));
    EXPECT_EQ(losing.last_report["memory"]["used"], 0);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyLosses, ::testing::Values(0, 250, 500, 750));

}  // namespace
}  // namespace kinora::engines::made_up
