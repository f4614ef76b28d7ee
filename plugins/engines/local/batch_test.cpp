// Stages that process several inputs at once.
#include <nlohmann/json.hpp>

#include "plugins/engines/local/engine_testing.hpp"

namespace kinora::local {
namespace {

using Batch = std::span<const Sample>;

// A stage with batches that keeps the sizes of its calls; 1: process().
struct Sizes {
  std::vector<size_t> all;
  std::mutex mutex;
  void add(size_t n) {
    const std::lock_guard lock(mutex);
    all.push_back(n);
  }
};

Act& add_batch(Pipeline& p, std::vector<uint32_t> from, uint32_t batch, Sizes& sizes) {
  auto& act = p.add("batch", std::move(from), [&sizes](Sample in, const Emit& emit, const kinora::Run&) {
    sizes.add(1);
    emit(std::move(in));
  });
  act.batch = batch;
  act.process_batch = [&sizes](Batch in, const Emit& emit, const kinora::Run&) {
    sizes.add(in.size());
    for (const Sample& one : in) emit(one);
  };
  return act;
}

uint64_t figure(const Pipeline& p, const char* name) {
  return nlohmann::json::parse(p.reports.back())["stages"][0][name].get<uint64_t>();
}

TEST(Batch, IsFullUntilTheInputEnds) {
  Pipeline p;
  Sizes sizes;
  add_batch(p, {}, 4, sizes).workers = 1;
  p.inputs(10);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 10}}));
  EXPECT_EQ(sizes.all, (std::vector<size_t>{4, 4, 2}));
  EXPECT_EQ(figure(p, "in"), 10u);
  EXPECT_EQ(figure(p, "out"), 10u);
}

TEST(Batch, OfOneIsACallOfProcess) {
  Pipeline p;
  Sizes sizes;
  add_batch(p, {}, 4, sizes).workers = 1;
  p.inputs(5);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(sizes.all, (std::vector<size_t>{4, 1}));
}

TEST(Batch, InOrderHasTheInputsInOrder) {
  Pipeline p;
  Sizes sizes;
  std::vector<std::string> seen;
  p.add("slow", {}, [](Sample in, const Emit& emit, const kinora::Run&) {
    sleep_ms(static_cast<int>(std::hash<std::string_view>{}(in.key()) % 5));
    emit(std::move(in));
  });
  Act& act = add_batch(p, {0}, 8, sizes);
  act.ordered = true;
  act.process_batch = [&](Batch in, const Emit& emit, const kinora::Run&) {
    sizes.add(in.size());
    for (const Sample& one : in) seen.emplace_back(one.key()), emit(one);
  };
  p.inputs(32);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(sizes.all, (std::vector<size_t>(4, 8)));
  ASSERT_EQ(seen.size(), 32u);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], std::to_string(i));
}

TEST(Batch, IsSmallerWhereMemoryIsShort) {
  Pipeline p;
  p.memory = 5000;
  Sizes sizes;
  add_batch(p, {}, 16, sizes).workers = 1;
  p.inputs(20, 2000);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 20}}));
  EXPECT_LE(*std::max_element(sizes.all.begin(), sizes.all.end()), 2u);
}

TEST(Batch, WithAnErrorCostsOnlyTheInputThatCausesIt) {
  Pipeline p;
  Sizes sizes;
  Act& act = add_batch(p, {}, 4, sizes);
  act.workers = 1;
  act.process = [](Sample in, const Emit& emit, const kinora::Run&) {
    if (in.key() == "5") throw Error(KINORA_ERROR_DATA, "five");
    emit(std::move(in));
  };
  act.process_batch = [](Batch in, const Emit& emit, const kinora::Run&) {
    for (const Sample& one : in)
      if (one.key() == "5") throw Error(KINORA_ERROR_DATA, "one is five");
    for (const Sample& one : in) emit(one);
  };
  p.inputs(12);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 11}, {"failed", 1}}));
  for (const auto& [key, o] : p.outcomes) EXPECT_EQ(o.reason, key == "5" ? "five" : "") << key;
  EXPECT_EQ(figure(p, "in"), 12u);
  EXPECT_EQ(figure(p, "retried"), 4u);
}

// Each input has a report of its own, and the batch fails after half of the reports: no report comes twice.
TEST(Batch, ThatFailsHalfwayPassesNothingOnTwice) {
  Pipeline p;
  Sizes sizes;
  Act& act = add_batch(p, {}, 6, sizes);
  act.workers = 1;
  const auto report = [](const Sample& of, const Emit& emit) {
    emit.made_of(std::array{of.key()});
    emit(Sample("report-" + std::string(of.key())));
  };
  act.process = [&](Sample in, const Emit& emit, const kinora::Run&) {
    report(in, emit);
    emit(std::move(in));
  };
  act.process_batch = [&](Batch in, const Emit& emit, const kinora::Run&) {
    emit(in[0]);
    for (size_t i = 1; i < 4; ++i) report(in[i], emit);
    throw Error(KINORA_ERROR_IO, "the model is away");
  };
  p.inputs(6);
  EXPECT_EQ(p.run(), "");
  std::map<std::string, int> times;
  for (const auto& [key, o] : p.outcomes) ++times[key];
  EXPECT_EQ(times.size(), 11u);  // the first ended without a report
  for (const auto& [key, n] : times) EXPECT_EQ(n, 1) << key;
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 11}}));
}

// A sum of all, then an error: the sum stays, each input is tried alone, and only the one that is wrong
// fails, with its own message.
TEST(Batch, WithAnErrorAfterASampleOfAllCostsOnlyTheOneThatIsWrong) {
  Pipeline p;
  Sizes sizes;
  Act& act = add_batch(p, {}, 4, sizes);
  act.workers = 1;
  act.process = [](Sample in, const Emit& emit, const kinora::Run&) {
    emit(Sample("sum-" + std::string(in.key())));
    if (in.key() == "2") throw Error(KINORA_ERROR_DATA, "two");
    emit(std::move(in));
  };
  act.process_batch = [](Batch in, const Emit& emit, const kinora::Run&) {
    emit(Sample("sum-" + std::string(in[0].key())));
    emit(in[0]);
    throw Error(KINORA_ERROR_DATA, "one is two");
  };
  p.inputs(4);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(),
            (std::map<std::string, int>{{"kept", 7}, {"failed", 1}}));  // 3 inputs, sums of 0, 1, 2 and 3
  for (const auto& [key, o] : p.outcomes) EXPECT_EQ(o.reason, key == "2" ? "two" : "") << key;
}

TEST(Batch, WithAnErrorAfterAllInputsEndedIsCounted) {
  Pipeline p;
  Sizes sizes;
  add_batch(p, {}, 4, sizes).process_batch = [](Batch in, const Emit& emit, const kinora::Run&) {
    for (const Sample& one : in) emit(one);
    throw Error(KINORA_ERROR_DATA, "late");
  };
  p.stages.front().workers = 1;
  p.inputs(8);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 8}}));
  EXPECT_EQ(figure(p, "errors_after"), 2u);
}

TEST(Batch, IsTheParentOfWhatIsMadeOfItAfterItsInputsEnded) {
  Pipeline p;
  Sizes sizes;
  add_batch(p, {}, 4, sizes).process_batch = [](Batch in, const Emit& emit, const kinora::Run&) {
    for (const Sample& one : in) emit(one);
    emit(Sample("sum"));
    emit.made_of(std::array{in[1].key()});
    emit(Sample("of-one"));
  };
  std::map<std::string, size_t> parents;
  p.on_done = [&](const kinora_outcome& o) {
    parents[std::string(view(samples_api().key(o.sample)))] = o.n_parents;
    return int32_t{KINORA_OK};
  };
  p.inputs(4);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(parents["sum"], 4u);
  EXPECT_EQ(parents["of-one"], 1u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_FALSE(p.outcomes[i].first.size() == 1) << "an input is reported before what was made of it";
}

TEST(Batch, IsTheParentOfWhatIsMadeOfIt) {
  Pipeline p;
  Sizes sizes;
  Act& act = add_batch(p, {}, 4, sizes);
  act.workers = 1;
  act.process_batch = [](Batch in, const Emit& emit, const kinora::Run&) {
    emit(Sample("sum-" + std::string(in[0].key())));
    emit.made_of(std::array{in[1].key(), in[2].key()});
    emit(Sample("pair-" + std::string(in[1].key())));
    emit.drop(in[3], "last", 3);  // the others are consumed
  };
  std::map<std::string, std::vector<std::string>> parents;
  p.on_done = [&](const kinora_outcome& o) {
    auto& of = parents[std::string(view(samples_api().key(o.sample)))];
    for (uint32_t i = 0; i < o.n_parents; ++i) of.emplace_back(view(o.parents[i]));
    std::sort(of.begin(), of.end());
    return int32_t{KINORA_OK};
  };
  p.inputs(4);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(parents["sum-0"], (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(parents["pair-1"], (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"kept", 5}, {"filtered", 1}}));
  std::vector<std::string> order;
  for (const auto& [key, o] : p.outcomes) order.push_back(key);
  const auto at = [&](const char* key) { return std::find(order.begin(), order.end(), key) - order.begin(); };
  for (const char* parent : {"0", "1", "2", "3"}) EXPECT_LT(at("sum-0"), at(parent));
  for (const char* parent : {"1", "2"}) EXPECT_LT(at("pair-1"), at(parent));
}

TEST(Batch, CannotHold) {
  Pipeline p;
  Sizes sizes;
  Act& act = add_batch(p, {}, 4, sizes);
  act.process = [](Sample, const Emit& emit, const kinora::Run&) { emit.hold(); };
  act.process_batch = [](Batch, const Emit& emit, const kinora::Run&) { emit.hold(); };
  p.inputs(4);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(p.counts(), (std::map<std::string, int>{{"failed", 4}}));
  EXPECT_TRUE(p.outcomes[0].second.reason.starts_with("hold() is not for a stage with batches"))
      << p.outcomes[0].second.reason;
}

TEST(Batch, MayStopTheRun) {
  Pipeline p;
  Sizes sizes;
  add_batch(p, {}, 4, sizes).process_batch = [](Batch, const Emit&, const kinora::Run&) {
    throw Error(KINORA_ERROR_REFUSED, "the key is refused");
  };
  p.inputs(8);
  EXPECT_EQ(p.run(), "stage 'batch': the key is refused");
  EXPECT_TRUE(p.outcomes.empty());
}

}  // namespace
}  // namespace kinora::local
