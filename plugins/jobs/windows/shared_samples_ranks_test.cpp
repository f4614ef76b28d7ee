// Ranks that share a model read its samples in turns: what each of them makes, gets and reports.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/training/same_batches.hpp"
#include "plugins/jobs/windows/shared_samples.hpp"
#include "tests/support/rank_strategies.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using test::Rank;
using testing::HasSubstr;
using Numbers = std::vector<int64_t>;

constexpr const char* kTwoByTwo = "['ddp', { use = 'tp', size = 2 }]";

// Sample n is a function of n: every third has a text without tokens.
LatentItem item_of(int64_t n) {
  LatentItem out{fmt::format("clip {}@{}", n, n % 4), {}, {}, {}};
  out.latent = at::arange(12, at::kFloat).view({2, 1, 2, 3}) / 7 + n;
  out.text = at::full({n % 3, 4}, 0.1 * static_cast<double>(n), at::kDouble);
  out.more["fps"] = at::scalar_tensor(n, at::kDouble);
  out.more["codes"] = at::full({1 + n % 2, 2}, n, at::kLong);
  out.more["flags"] = at::arange(3).eq(n % 3);
  out.more["wide"] = at::full({3, 5}, 1.0 / static_cast<double>(n + 1), at::kBFloat16).t();
  return out;
}

void expect_equal(const LatentItem& got, const LatentItem& want) {
  EXPECT_EQ(got.key, want.key);
  ASSERT_EQ(got.more.size(), want.more.size());
  EXPECT_TRUE(at::equal(got.latent, want.latent)) << got.key;
  EXPECT_TRUE(at::equal(got.text, want.text)) << got.key;
  for (const auto& [name, tensor] : want.more) {
    EXPECT_EQ(got.more.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(got.more.at(name), tensor)) << got.key << " " << name;
  }
}

// The samples of one rank alone, which remembers what it was asked for.
class OwnSamples final : public LiveStream {
 public:
  Numbers made, prepared, measured;
  int64_t away = -1;  // a sample whose storage is away
  LostSamples unusable{"dit", {}};

  const LatentFacts& facts() const override { return facts_; }
  LatentItem drawn(int64_t n) override {
    if (n == away) throw Error(KINORA_ERROR_UNSUPPORTED, "s3://bucket is away");
    made.push_back(n);
    return item_of(n);
  }
  void prepare(const Numbers& numbers, int64_t stride) override {
    EXPECT_EQ(stride, 0) << "they follow no rule that a reader ahead knows";
    prepared.insert(prepared.end(), numbers.begin(), numbers.end());
  }
  std::vector<LatentSize> latent_sizes(int64_t first, int64_t count) override {
    std::vector<LatentSize> out;
    for (int64_t n = first; n < first + count; ++n) {
      out.push_back({n, 100 + n * n, 7});
      measured.push_back(n);
    }
    return out;
  }
  size_t window_sizes() const override { return 1; }
  double take_wait() override { return 0; }
  int64_t take_bytes() override { return 0; }
  LostSamples& lost() override { return unusable; }
  nlohmann::json loading() const override { return nullptr; }
  LatentItem example() override { return drawn(0); }
  size_t validation_size() const override { return 0; }
  LatentItem validation(size_t i) override { return item_of(static_cast<int64_t>(i)); }
  nlohmann::json summary() const override { return {{"samples", 24}, {"failed", unusable.failed()}}; }

 private:
  LatentFacts facts_;
};

// A rank of a training with shared samples.
struct OneOfMany {
  OneOfMany(const Rank& me, const std::string& parallel)
      : ranks(me, parallel), samples(ranks.strategies, at::kCPU, [this] {
          auto opened = std::make_unique<OwnSamples>();
          own = opened.get();
          return opened;
        }) {}
  // The numbers of all ranks of this rank's group, by its ranks.
  std::vector<Numbers> of_group(const Numbers& mine) const {
    std::vector<Numbers> out;
    for (const auto& row : Exchange(ranks.strategies.of_sample()).gather(at::tensor(mine, at::kLong)))
      out.emplace_back(row.data_ptr<int64_t>(), row.data_ptr<int64_t>() + row.numel());
    return out;
  }
  test::StrategyChain ranks;
  OwnSamples* own = nullptr;
  SharedSamples samples;
};

// Four microbatches of one sample a step for each of two data ranks, for three steps. The numbers of one rank are all
// even or all odd: their remainders would leave them to one rank of a group.
Numbers of_microbatches(int64_t data_rank, int64_t step) {
  if (step >= 3) return {};
  Numbers out;
  for (const int64_t micro : {0, 1, 2, 3}) out.push_back(step * 8 + micro * 2 + data_rank);
  return out;
}

TEST(SharedSamples, AreWholeOnEveryRankAndMadeOnceInEachGroup) {
  test::on_ranks(4, [](const Rank& me) {
    OneOfMany one(me, kTwoByTwo);
    const int64_t group = me.rank / 2;  // tp is the innermost axis
    const auto numbers = [&](int64_t step) { return of_microbatches(group, step); };
    Numbers all;
    for (const int64_t step : {0, 1, 2}) {
      one.samples.begin_step(step, numbers);
      for (const int64_t n : numbers(step)) {
        expect_equal(one.samples.drawn(n), item_of(n));
        expect_equal(one.samples.drawn(n), item_of(n));  // a pipeline draws some twice
        all.push_back(n);
      }
      EXPECT_EQ(one.own->made.size(), 2u * static_cast<size_t>(step + 1)) << "half of each step";
    }
    EXPECT_EQ(one.own->prepared, one.own->made);
    Numbers made;
    for (const auto& of_rank : one.of_group(one.own->made))
      made.insert(made.end(), of_rank.begin(), of_rank.end());
    EXPECT_THAT(made, testing::UnorderedElementsAreArray(all));
  });
}

// Otherwise a group with one sample a step would leave all of them to its first rank.
TEST(SharedSamples, TakeTurnsAlsoWithFewerSamplesThanRanks) {
  test::on_ranks(2, [](const Rank& me) {
    OneOfMany one(me, "['tp']");
    const auto numbers = [](int64_t step) { return step < 8 ? Numbers{step} : Numbers(); };
    one.samples.begin_step(4, numbers);  // resumed
    EXPECT_EQ(one.own->prepared, me.rank == 0 ? Numbers({4, 6}) : Numbers({5})) << "both have one to make";
    for (const int64_t step : {5, 6, 7}) one.samples.begin_step(step, numbers);
    EXPECT_EQ(one.own->made, me.rank == 0 ? Numbers({4, 6}) : Numbers({5, 7}));
    expect_equal(one.samples.drawn(7), item_of(7));
  });
}

// Ranks of the other group too: they would wait for its gradients.
TEST(SharedSamples, FailOnEveryRankWithTheErrorOfOne) {
  test::on_ranks(4, [](const Rank& me) {
    OneOfMany one(me, kTwoByTwo);
    const auto numbers = [&](int64_t step) { return of_microbatches(me.rank / 2, step); };
    one.samples.begin_step(0, numbers);
    if (me.rank == 3) one.own->away = numbers(1).at(one.own->made.at(0) == numbers(0).at(0) ? 0 : 1);
    EXPECT_EQ(test::refusal([&] { one.samples.begin_step(1, numbers); }), "rank 3: s3://bucket is away");
  });
}

TEST(SharedSamples, AreOpenedByAllRanksOrByNone) {
  test::on_ranks(2, [](const Rank& me) {
    const test::StrategyChain ranks(me, "['tp']");
    const auto open = [&]() -> std::unique_ptr<LiveStream> {
      if (me.rank == 1) throw Error(KINORA_ERROR_NOT_FOUND, "shards/ is empty");
      return std::make_unique<OwnSamples>();
    };
    EXPECT_EQ(test::refusal([&] { SharedSamples(ranks.strategies, at::kCPU, open); }),
              "rank 1: shards/ is empty");
  });
}

TEST(SharedSamples, MeasureEachSampleOnOneRank) {
  test::on_ranks(2, [](const Rank& me) {
    OneOfMany one(me, "['tp']");
    const std::vector<LatentSize> want{{3, 109, 7}, {4, 116, 7}, {5, 125, 7}, {6, 136, 7}, {7, 149, 7}};
    EXPECT_EQ(one.samples.latent_sizes(3, 5), want);
    EXPECT_EQ(one.own->measured, me.rank == 0 ? Numbers({3, 5, 7}) : Numbers({4, 6}));
  });
}

TEST(SharedSamples, CountAFailureOnceWhicheverRanksMetIt) {
  test::on_ranks(2, [](const Rank& me) {
    OneOfMany one(me, "['tp']");
    LostSamples& lost = one.samples.lost();
    lost.add("sample 3 of a.tar", {.why = "torn"});
    if (me.rank == 1) lost.add("sample 1 of a.tar", {.why = "torn"});
    lost.add("sample 7 of a.tar", {Unused::Kind::too_short, "2 frames", "take longer ones"});
    lost.merge(Exchange(one.ranks.strategies.group("world")).gather(lost.take_shared(true)));
    EXPECT_EQ(one.samples.summary(), nlohmann::json({{"samples", 24}, {"failed", 2}}));
    EXPECT_EQ(lost.too_short(), 1);
    expect_equal(one.samples.example(), item_of(0));
  });
}

TEST(SameBatches, AreComparedWithinEachGroup) {
  test::on_ranks(4, [](const Rank& me) {
    const test::StrategyChain ranks(me, kTwoByTwo);
    SameBatches same(ranks.strategies);
    EXPECT_TRUE(same.is_needed());
    const int64_t first = 8 + me.rank / 2 * 2;
    const auto batch = [&](int64_t n) {
      return NamedTensors{{"latent", at::stack({item_of(n).latent, item_of(n + 1).latent})},
                          {"text_mask", at::ones({2, 1}, at::kBool)}};
    };
    same.add(first, batch(first));
    same.add(16, batch(me.rank));  // of the next step
    same.compare(8, 16, 2);
    same.add(first, batch(first));
    auto swapped = batch(first + 4);
    if (me.rank == 3) swapped["latent"] = swapped["latent"].flip({0});
    same.add(first + 4, swapped);
    EXPECT_THAT(
        test::refusal([&] { same.compare(8, 16, 2); }),
        HasSubstr(
            "ranks 2 and 3 have different data in step 2: 'latent' of the microbatch from sample 14 on"));
  });
}

TEST(SameBatches, DifferIfARankHasOneLess) {
  test::on_ranks(2, [](const Rank& me) {
    const test::StrategyChain ranks(me, "['tp']");
    SameBatches same(ranks.strategies);
    if (me.rank == 0) same.add(0, {{"latent", at::ones({1})}});
    EXPECT_THAT(test::refusal([&] { same.compare(0, 4, 1); }),
                HasSubstr("ranks 0 and 1 have different data in step 1: 'latent'"));
  });
}

}  // namespace
}  // namespace kinora::core
