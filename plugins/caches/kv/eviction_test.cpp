// Eviction against closed forms: which frames a chunk sees, without a history.
#include "plugins/caches/kv/eviction.hpp"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora {
namespace {

// A video of chunks with cuts, in frames; some frames are stored by each chunk.
struct Video {
  int64_t chunk, capacity, sink, area;
  std::set<int64_t> cuts;  // chunks
  int64_t chunks;
};

// The frames that chunk c sees: the sink and the chunk of the last cut before it, and of the others the newest that
// the capacity leaves room for, its own included.
std::set<int64_t> seen_by(const Video& v, int64_t c) {
  std::set<int64_t> out;
  const auto add = [&](int64_t first, int64_t end) {
    for (int64_t f = first; f < std::min(end, (c + 1) * v.chunk); ++f) out.insert(f);
  };
  add(0, v.sink);
  int64_t cut = 0;
  for (const int64_t k : v.cuts)
    if (k < c) cut = k;
  if (cut > 0) add(cut * v.chunk, (cut + 1) * v.chunk);
  for (int64_t f = (c + 1) * v.chunk - 1; f >= 0 && static_cast<int64_t>(out.size()) < v.capacity; --f)
    out.insert(f);
  return out;
}

// The same by a cache that forgets as it goes: each chunk is denoised, then stored; a cut pins its chunk and lets the
// pinned one before it go.
void expect_equal(const Video& v) {
  std::vector<int64_t> stored;
  std::vector<Range> pinned;
  const int64_t tokens = v.chunk * v.area;
  for (int64_t c = 0; c < v.chunks; ++c) {
    std::vector<int64_t> fresh, left;
    for (int64_t i = c * tokens; i < (c + 1) * tokens; ++i) fresh.push_back(i);
    for (const int64_t at : staying(stored, fresh, {0, v.capacity * v.area, v.sink * v.area}, pinned))
      left.push_back(stored[static_cast<size_t>(at)]);
    left.insert(left.end(), fresh.begin(), fresh.end());
    stored = left;
    std::vector<int64_t> want;
    for (const int64_t f : seen_by(v, c))
      for (int64_t i = 0; i < v.area; ++i) want.push_back(f * v.area + i);
    ASSERT_EQ(left, want) << "chunk " << c << " of " << v.chunk << " frames, capacity " << v.capacity
                          << ", sink " << v.sink << ", cuts " << testing::PrintToString(v.cuts);
    if (v.cuts.contains(c)) pinned = {{c * tokens, (c + 1) * tokens}};
  }
}

TEST(Eviction, IsTheClosedFormOfChunksSinksAndCuts) {
  std::mt19937 random(11);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int round = 0; round < 20'000 && !testing::Test::HasFatalFailure(); ++round) {
    Video v{
        .chunk = draw(1, 3), .capacity = 0, .sink = 0, .area = draw(1, 2), .cuts = {}, .chunks = draw(1, 12)};
    v.sink = v.chunk * draw(0, 2);
    v.capacity = v.sink + v.chunk * draw(2, 5);
    for (int64_t c = 1; c < v.chunks; ++c)
      if (draw(0, 4) == 0) v.cuts.insert(c);
    expect_equal(v);
  }
}

TEST(Eviction, CountsPinnedTokensInACapacityAndNotInAWindow) {
  const std::vector<int64_t> stored{0, 1, 2, 3, 4, 5}, fresh{6, 7};
  const std::vector<Range> pinned{{1, 2}};
  const auto of = [&](const Bounds& bounds) { return staying(stored, fresh, bounds, pinned); };
  EXPECT_THAT(of({}), testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(of({4}), testing::ElementsAre(1, 4, 5));
  EXPECT_THAT(of({0, 4}), testing::ElementsAre(1, 5));
  EXPECT_THAT(of({0, 5, 1}), testing::ElementsAre(0, 1, 5));
  EXPECT_THAT(of({2}), testing::ElementsAre(1));
  EXPECT_THAT(of({0, 2}), testing::ElementsAre(1)) << "pinned tokens stay where there is no room";
}

}  // namespace
}  // namespace kinora
