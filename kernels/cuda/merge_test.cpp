// The threads of merge.cu, run in turn on the processor, against the mean of both results in float64.
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/merge_row.hpp"

namespace kinora::cuda {
namespace {

template <int N>
void run(const MergeJob& job) {
  std::vector<Merging<N>> threads(kMergeThreads);
  for (int64_t block = 0; block < job.blocks(); ++block) {
    for (int t = 0; t < kMergeThreads; ++t) threads[static_cast<size_t>(t)].load(job, block, t);
    for (int t = 0; t < kMergeThreads; ++t) threads[static_cast<size_t>(t)].store(job, t);
  }
}
void merge_on_host(const MergeJob& job) { merges_packs(job) ? run<4>(job) : run<1>(job); }

std::vector<float> drawn(int64_t n, unsigned seed, float by) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = by * normal(random);
  return out;
}

// `all` is tokens [first, first + S) of longer tensors, `more` has its heads before its tokens.
struct Case {
  int64_t B, S, H, d, first, tokens;
};

void check(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.B << " " << c.S << " " << c.H << " " << c.d);
  const MergeShape n{c.B, c.S, c.H, c.d};
  const int64_t rows = c.B * c.tokens * c.H;
  const auto before = drawn(rows * c.d, 1, 1), sums_before = drawn(rows, 2, 8),
             more = drawn(c.B * c.H * c.S * c.d, 3, 1), more_sums = drawn(c.B * c.H * c.S, 4, 8);
  auto out = before, sums = sums_before;
  const Attended<float>::Strides of_all{c.tokens * c.H * c.d, c.H * c.d, c.d},
      of_sums{c.tokens * c.H, c.H, 1};
  const Attended<const float>::Strides of_more{c.H * c.S * c.d, c.d, c.S * c.d},
      of_more_sums{c.H * c.S, 1, c.S};
  merge_on_host({n,
                 {out.data() + c.first * c.H * c.d, sums.data() + c.first * c.H, of_all, of_sums},
                 {more.data(), more_sums.data(), of_more, of_more_sums}});
  for (int64_t b = 0; b < c.B; ++b)
    for (int64_t t = 0; t < c.tokens; ++t)
      for (int64_t h = 0; h < c.H; ++h) {
        const auto row = static_cast<size_t>((b * c.tokens + t) * c.H + h);
        const int64_t s = t - c.first;
        const bool merged = s >= 0 && s < c.S;
        const auto other = static_cast<size_t>((b * c.H + h) * c.S + (merged ? s : 0));
        const double one = std::exp(static_cast<double>(sums_before[row])),
                     two = merged ? std::exp(static_cast<double>(more_sums[other])) : 0;
        ASSERT_NEAR(sums[row], std::log(one + two), 4e-6) << b << " " << t << " " << h;
        for (int64_t i = 0; i < c.d; ++i) {
          const auto at = row * static_cast<size_t>(c.d) + static_cast<size_t>(i);
          const double y = merged ? more[other * static_cast<size_t>(c.d) + static_cast<size_t>(i)] : 0;
          ASSERT_NEAR(out[at], (one * before[at] + two * y) / (one + two), 4e-6)
              << b << " " << t << " " << h << " " << i;
        }
      }
}

TEST(MergeRow, IsTheMeanWeightedByTheSums) {
  for (const Case& c : {Case{2, 37, 3, 16, 0, 37}, Case{2, 5, 3, 10, 4, 12}, Case{1, 1, 1, 1, 0, 1},
                        Case{1, 9, 2, 128, 3, 20}, Case{3, 4, 2, 132, 0, 4}, Case{2, 3, 5, 256, 1, 7}})
    check(c);
}

// Queries that have seen no key have -1e30 (kSeenNothing).
TEST(MergeRow, AQueryThatHasSeenNothingTakesTheOther) {
  const float nothing = -1e30f;
  const auto merged = [](float s, float x, float t, float y) {
    const Attended<float>::Strides one{1, 1, 1};
    merge_on_host({{1, 1, 1, 1}, {&x, &s, one, one}, {&y, &t, {1, 1, 1}, {1, 1, 1}}});
    return std::pair(s, x);
  };
  EXPECT_EQ(merged(nothing, 0, 3, 7), std::pair(3.0f, 7.0f));
  EXPECT_EQ(merged(3, 7, nothing, 0), std::pair(3.0f, 7.0f));
  EXPECT_EQ(merged(nothing, 0, nothing, 0), std::pair(nothing, 0.0f));
}

}  // namespace
}  // namespace kinora::cuda
