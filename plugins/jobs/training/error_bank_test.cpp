// Error recycling against its formulas, with the uniform numbers of each sample drawn anew.
#include "plugins/jobs/training/error_bank.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/noise.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core::error_bank {
namespace {

using at::Tensor;
using testing::HasSubstr;

constexpr uint64_t kRunSeed = 9;
constexpr int64_t C = 2, T = 5, kChunk = 2, kChunks = 3;  // the last chunk has one frame

Tensor numbers(const std::string& key, int64_t samples) {
  return sample_noise(at::empty({samples, C, T, 2, 2}, at::kDouble), 5, 0, key);
}
// One level for each chunk.
Tensor levels_of(const std::vector<double>& chunks) {
  return at::tensor(chunks, at::kDouble).repeat_interleave(kChunk).narrow(0, 0, T).unsqueeze(0);
}
Tensor draws_of(int64_t sample) {
  return sample_uniform({1, 5 + 7 * kChunks}, kRunSeed, sample, "train.error-recycling")[0];
}
double draw(int64_t sample, int64_t i) { return draws_of(sample)[i].item<double>(); }

ErrorRecycling always() {
  ErrorRecycling out;
  out.context = out.latent = out.noise = 1;
  out.clean = 0, out.start = 1, out.buckets = 4, out.entries = 8;
  return out;
}

// A bank with the errors of one sample, whose prediction is given, in step 0.
struct Filled {
  explicit Filled(const ErrorRecycling& how = always(), const std::vector<double>& chunks = {0.1, 0.3, 0.9})
      : bank(how, {kChunk}, kRunSeed), levels(levels_of(chunks)) {
    add(bank, 40);
  }
  void add(ErrorBank& to, int64_t sample) const {
    auto made = to.injected(x0, n, levels, {sample}, 0);
    made.streams.prediction = v;
    to.note(x0, made, {sample}, 0);
    to.store(Exchange());
  }
  ErrorBank bank;
  Tensor levels, x0 = numbers("latent", 1), n = numbers("noise", 1), v = numbers("prediction", 1);
  Tensor s = levels.view({1, 1, T, 1, 1});
  // As stored. x - s v - x0 = s (n - x0 - v).
  Tensor of_latent = (s * (n - x0 - v)).to(at::kBFloat16).to(at::kDouble),
         of_noise = ((1 - s) * (v - n + x0)).to(at::kBFloat16).to(at::kDouble);
};

TEST(ErrorBank, AddsErrorsOfThePositionAndTheLevelAtARandomScale) {
  const Filled f;
  EXPECT_EQ(f.bank.size(), kChunks);
  const Tensor x0 = numbers("latent 2", 1), n = numbers("noise 2", 1);
  const int64_t sample = 77;
  // The first chunk is in the bucket of the stored one, the second in another.
  const auto made = f.bank.injected(x0, n, levels_of({0.2, 0.6, 0.76}), {sample}, 1);
  for (int64_t p = 0; p < kChunks; ++p) {
    const auto chunk = [&](const Tensor& t) { return t.narrow(2, p * kChunk, p == 2 ? 1 : kChunk); };
    const auto scale = [&](int64_t of) { return 1 + 0.3 * (2 * draw(sample, 5 + 7 * p + 2 * of + 1) - 1); };
    const bool same_bucket = p != 1;
    const auto apart = [&](const Tensor& got, const Tensor& was, const Tensor& error, double by) {
      return (chunk(got) - chunk(was) - by * chunk(error)).abs().max().item<double>();
    };
    EXPECT_LT(apart(made.streams.context, x0, f.of_latent, scale(0)), 1e-12) << p;
    EXPECT_LT(apart(made.streams.latent, x0, f.of_latent, same_bucket ? scale(1) : 0), 1e-12) << p;
    EXPECT_LT(apart(made.noise, n, f.of_noise, same_bucket ? scale(2) : 0), 1e-12) << p;
  }
  EXPECT_GT((made.streams.context - x0).abs().max().item<double>(), 0.1);
}

// The error of a sample that was disturbed itself contains what is left of the disturbance, x - s v - x0.
TEST(ErrorBank, StoresTheErrorOfADisturbedSampleAgainstItsCleanLatent) {
  Filled f;
  auto made = f.bank.injected(f.x0, f.n, f.levels, {3}, 1);
  made.streams.prediction = f.v;
  f.bank.note(f.x0, made, {3}, 1);
  f.bank.store(Exchange());
  EXPECT_EQ(f.bank.size(), 2 * kChunks);
  const Tensor x = (1 - f.s) * made.streams.latent + f.s * made.noise, error = x - f.s * f.v - f.x0;
  const Tensor stored = f.bank.state().at("errors.2")[1][0];
  EXPECT_TRUE(at::equal(stored, error[0].narrow(1, 4, 1).to(at::kBFloat16)));
}

TEST(ErrorBank, DrawsTheSharesOfItsSamples) {
  ErrorRecycling how = always();
  how.context = 0.9, how.latent = 0.5, how.noise = 0.1, how.clean = 0.2;
  const Filled f(how);
  const int64_t count = 2000;
  double context = 0, latent = 0, noise = 0;
  for (int64_t sample = 0; sample < count; ++sample) {
    const auto made = f.bank.injected(f.x0, f.n, f.levels, {sample}, 1);
    context += !at::equal(made.streams.context, f.x0);
    latent += !at::equal(made.streams.latent, f.x0);
    noise += !at::equal(made.noise, f.n);
    ASSERT_TRUE(at::equal(f.bank.injected(f.x0, f.n, f.levels, {sample}, 0).streams.context, f.x0))
        << "before its start";
  }
  EXPECT_NEAR(context / count, 0.8 * 0.9, 0.04);
  EXPECT_NEAR(latent / count, 0.8 * 0.5, 0.04);
  EXPECT_NEAR(noise / count, 0.8 * 0.1, 0.025);
}

TEST(ErrorBank, NotesOneInTenOfTheCleanSamplesAndNothingThatIsNotFinite) {
  ErrorRecycling how = always();
  how.clean = 1, how.entries = 100000;
  Filled f(how);
  int64_t want = 1;
  for (int64_t sample = 0; sample < 300; ++sample) {
    auto made = f.bank.injected(f.x0, f.n, f.levels, {sample}, 1);
    made.streams.prediction = f.v;
    f.bank.note(f.x0, made, {sample}, 1);
    want += draw(sample, 1) < 0.1;
    made.streams.prediction = f.v / 0;
    f.bank.note(f.x0, made, {sample + 1000}, 0);
  }
  f.bank.store(Exchange());
  EXPECT_EQ(f.bank.size(), want * kChunks);
  EXPECT_GT(want, 10);
}

TEST(ErrorBank, ReplacesARandomErrorOfAFullBucketAndIsWholeInItsState) {
  Filled f;  // two errors a bucket
  std::vector<Tensor> want{f.of_latent};
  Filled other = f;
  for (int64_t sample = 41; sample < 60; ++sample) {
    other.v = f.v * static_cast<double>(sample);
    other.add(f.bank, sample);
    const Tensor error = (f.s * (f.n - f.x0 - other.v)).to(at::kBFloat16).to(at::kDouble);
    if (want.size() < 2)
      want.push_back(error);
    else
      want[static_cast<size_t>(draw(sample, 5 + 6) * 2)] = error;
  }
  EXPECT_EQ(f.bank.size(), 2 * kChunks);
  const auto state = f.bank.state();
  const Tensor first = state.at("errors.0").to(at::kDouble);
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_TRUE(at::equal(first[i][0], want[static_cast<size_t>(i)][0].narrow(1, 0, kChunk))) << i;
  EXPECT_TRUE(at::equal(state.at("buckets.2"), at::tensor({3, 3}, at::kLong)));
  ErrorBank again(always(), {kChunk}, kRunSeed);
  again.restore(state);
  EXPECT_TRUE(at::equal(again.injected(f.x0, f.n, f.levels, {5}, 1).streams.latent,
                        f.bank.injected(f.x0, f.n, f.levels, {5}, 1).streams.latent));
}

TEST(Recycling, SaysWhatIsWrong) {
  EXPECT_FALSE(recycling_of(""));
  EXPECT_EQ(recycling_of("{}")->entries, 500);
  EXPECT_EQ(recycling_of(R"({"noise": 0.5, "start": 3})")->start, 3);
  for (const auto& [text, said] :
       {std::pair{"[]", "[] is no table"},
        {R"({"noises": 1})", "'noises' = 1 is unknown"},
        {R"({"noise": 1.5})", "'noise' = 1.5 is unknown or out of range"},
        {R"({"buckets": 0})", "'buckets' = 0"},
        {R"({"start": 2.5})", "'start' = 2.5"},
        {R"({"entries": 10})", "entries = 10 are fewer than one for each of the 50"}})
    EXPECT_THAT(test::refusal([&] { recycling_of(text); }), HasSubstr(said)) << text;
}

}  // namespace
}  // namespace kinora::core::error_bank
