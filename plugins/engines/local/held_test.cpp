// Held inputs: they count as memory, and no stage waits forever.
#include <random>

#include <nlohmann/json.hpp>

#include "plugins/engines/local/engine_testing.hpp"

namespace kinora::local {
namespace {

constexpr size_t kMiB = 1 << 20;

// Holds samples until there are so many, and the rest until finish().
void add_batch(Pipeline& p, std::string name, std::vector<uint32_t> from, size_t size, bool ordered = false) {
  auto kept = std::make_shared<std::vector<Sample>>();
  auto& act =
      p.add(std::move(name), std::move(from), [kept, size](Sample in, const Emit& emit, const kinora::Run&) {
        kept->push_back(std::move(in));
        if (kept->size() < size) return emit.hold();
        for (auto& s : std::exchange(*kept, {})) emit(std::move(s));
      });
  act.ordered = ordered;
  if (!ordered) act.workers = 1;  // with more workers they would share the samples
  act.finish = [kept](const Emit& emit, const kinora::Run&) {
    for (auto& s : std::exchange(*kept, {})) emit(std::move(s));
  };
}

uint64_t peak_of(const Pipeline& p) {
  return nlohmann::json::parse(p.reports.back())["memory"]["peak"].get<uint64_t>();
}

// Hardly anything else is in the engine: it counts the held inputs.
TEST(Held, CountsAsMemoryWhileItIsKeptBack) {
  Pipeline p;
  p.threads = 1;
  p.memory = 20 * kMiB;
  p.options.queue = 1;
  add_batch(p, "batch", {}, 8);
  p.inputs(32, kMiB);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 32}}));
  EXPECT_GE(peak_of(p), 8 * kMiB);
  EXPECT_LE(peak_of(p), p.memory);
}

TEST(Held, ABatchKeepsTheBound) {
  Pipeline p;
  p.memory = 16 * kMiB;
  p.add("read", {}, pass);
  add_batch(p, "batch", {0}, 6);
  p.add("slow", {1}, [](Sample in, const Emit& emit, const kinora::Run&) {
    sleep_ms(2);
    emit(std::move(in));
  });
  p.inputs(60, kMiB);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 60}}));
  EXPECT_LE(peak_of(p), p.memory);
}

// Sixteen times what fits: the run neither waits forever nor processes one sample at a time.
TEST(Held, AStageThatKeepsAllBackDoesNotStopTheRest) {
  Pipeline p;
  p.threads = 4;
  p.memory = 8 * kMiB;
  std::atomic<int> together{0}, late{0}, seen{0};
  p.add("read", {}, [&](Sample in, const Emit& emit, const kinora::Run&) {
    const int now = ++together;
    if (++seen > 64 && now > 1) ++late;
    sleep_ms(2);
    --together;
    emit(std::move(in));
  });
  add_batch(p, "all", {0}, SIZE_MAX);
  p.inputs(128, kMiB);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 128}}));
  EXPECT_GE(nlohmann::json::parse(p.reports.back())["memory"]["beside"].get<uint64_t>(), 120 * kMiB)
      << "held inputs that no longer count are still reported";
  EXPECT_GE(late, 32) << "samples that were read in addition to others when held inputs took all the memory";
}

// Clips become four times as large as fits, and one of a later video comes first: one at a time exceeds the
// bound, without the older one in addition.
TEST(Held, OfWhatAStageMakesLargerThanFitsOneGoesOnAtATime) {
  Pipeline p;
  p.memory = 4 * kMiB;
  p.add("cut", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    if (in.key() == "0") sleep_ms(50);
    for (int i = 0; i < 3; ++i) emit(in.clone(std::string(in.key()) + "-" + std::to_string(i)));
  });
  p.add("grow", {0}, [](Sample in, const Emit& emit, const kinora::Run&) {
     sleep_ms(100);
     in.set("big", std::vector<uint8_t>(16 * kMiB));
     emit(std::move(in));
   }).workers = 1;
  for (uint32_t i = 0; i < 2; ++i)
    p.add("slow", {1 + i}, [](Sample in, const Emit& emit, const kinora::Run&) {
      sleep_ms(3);
      in.set("txt", "seen");
      emit(std::move(in));
    });
  p.inputs(3, kMiB / 2);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 12}}));
  EXPECT_LE(peak_of(p), p.memory + 17 * kMiB);
}

// Batches, stages that hold all inputs, and ordered stages, in series and in parallel, under bounds that fit
// almost nothing.
class HeldEverywhere : public ::testing::TestWithParam<uint32_t> {};

TEST_P(HeldEverywhere, EndsEachSampleOnce) {
  std::mt19937 random(GetParam());
  Pipeline p;
  p.threads = 1 + static_cast<int32_t>(random() % 6);
  p.memory = std::array<uint64_t, 5>{1, 3000, 20000, 60000, 200000}[random() % 5];
  p.options.queue = 1 + random() % 8;
  const size_t n = 1 + random() % 5;
  for (size_t s = 0; s < n; ++s) {
    std::vector<uint32_t> from;
    if (s > 0) from.push_back(static_cast<uint32_t>(s - 1));
    const bool ordered = random() % 3 == 0;
    const auto kind = random() % 4;
    const std::string name = "s" + std::to_string(s);
    if (kind == 0)
      p.add(name, from, [](Sample in, const Emit& emit, const kinora::Run&) {
         sleep_ms(static_cast<int>(std::hash<std::string_view>{}(in.key()) % 2));
         emit(std::move(in));
       }).ordered = ordered;
    else
      add_batch(p, name, from, kind == 1 ? SIZE_MAX : 1 + random() % 12, ordered);
  }
  p.inputs(60, random() % 4000);
  ASSERT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 60}}));
  EXPECT_EQ(testing::TestSample::alive, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, HeldEverywhere, ::testing::Range(0u, 40u));

}  // namespace
}  // namespace kinora::local
