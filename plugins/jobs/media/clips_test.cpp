#include "plugins/jobs/media/clips.hpp"

#include <chrono>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/oracle.hpp"

namespace kinora::core {
namespace {

TEST(Shuffled, IsAPermutationOfEveryEpoch) {
  for (const int64_t count : {1, 2, 3, 5, 16, 17, 255, 256, 257, 1000, 5000})
    for (const int64_t epoch : {0, 1, 7}) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t which = shuffled(epoch * count + i, count, 5);
        ASSERT_TRUE(which >= 0 && which < count) << count;
        seen.insert(which);
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
    }
}

TEST(Shuffled, DiffersByEpochAndSeedAndDependsOnNothingElse) {
  int same_epoch = 0, same_seed = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(shuffled(i, 1000, 5), shuffled(i, 1000, 5));
    same_epoch += shuffled(i, 1000, 5) == shuffled(1000 + i, 1000, 5);
    same_seed += shuffled(i, 1000, 5) == shuffled(i, 1000, 6);
  }
  EXPECT_LT(same_epoch, 10);  // independent permutations give 1
  EXPECT_LT(same_seed, 10);
}

// All 24 orders of four are equally likely: chi-square with 23 degrees of freedom is below 64 except once in
// 1e5.
TEST(Shuffled, DrawsEveryOrderEquallyOften) {
  constexpr int kEpochs = 24000;
  std::map<std::vector<int64_t>, double> orders;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 4; ++i) order.push_back(shuffled(4 * epoch + i, 4, 9));
    ++orders[order];
  }
  EXPECT_EQ(orders.size(), 24U);
  double chi = 0;
  for (const auto& [order, n] : orders) chi += (n - kEpochs / 24.) * (n - kEpochs / 24.) / (kEpochs / 24.);
  EXPECT_LT(chi, 64);
}

TEST(Shuffled, CostsTheSameForAnyCount) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t n = 0; n < 1000; ++n) EXPECT_LT(shuffled(n, 1'000'000'007, 1), 1'000'000'007);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10);
}

// Compares with Pillow's resize and transformers' processor (tests/oracle/make_clip_image_fixtures.py).
TEST(ClipImage, IsWhatPublishedEncodersRead) {
  constexpr double level = 1 / 255.0 / 0.26;  // one of 256 levels, in the units of the result
  for (const char* name : {"landscape", "portrait", "square", "small", "same"}) {
    const test::Oracle oracle("clip_image.safetensors", name);
    const at::Tensor got = clip_image(oracle.exact("frame"), oracle.options.at("size"))[0];
    const auto apart = [&](const at::Tensor& want) {
      EXPECT_EQ(got.sizes(), want.sizes());
      return (got.to(at::kDouble) - want.to(at::kDouble)).abs();
    };
    const double pillow = apart(oracle.exact("pillow")).max().item<double>(),
                 transformers = apart(oracle.exact("transformers")).mean().item<double>();
    const bool other_order = std::string(name) == "portrait";  // Pillow 13 rounds in another order
    EXPECT_LT(pillow, other_order ? 6 * level : 1e-6) << name;
    EXPECT_LT(transformers, 0.3 * level) << name << ": torchvision gives some numbers a neighbouring level";
    std::printf("          %s: Pillow %.2g, transformers %.2g\n", name, pillow, transformers);
  }
}

}  // namespace
}  // namespace kinora::core
