// Graphs of stages: branches, order, and when stages finish.
#include <random>
#include <set>

#include "plugins/engines/local/engine_testing.hpp"

namespace kinora::local {
namespace {

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

// Samples kept from two branches must have different keys; so must branches of branches and of the
// source.
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
