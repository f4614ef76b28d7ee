// Windows of a long rollout against the whole video: what they make, their gradient, and what they keep.
#include <optional>

#include "plugins/jobs/distill/self_forcing_testing.hpp"

namespace kinora::core::forcing {
namespace {

constexpr int64_t kWindows = 3;

// Exit steps of a window of the video.
std::vector<int64_t> of_window(const std::vector<int64_t>& exits, int64_t window) {
  const auto each = static_cast<std::ptrdiff_t>(exits.size()) / kWindows;
  return {exits.begin() + window * each, exits.begin() + (window + 1) * each};
}

SelfForced joined_windows(const std::vector<SelfForced>& windows) {
  std::vector<Tensor> x, noisy, levels;
  for (const SelfForced& one : windows) {
    x.push_back(one.x);
    noisy.push_back(one.noisy);
    levels.push_back(one.levels);
  }
  return {at::cat(x, 2), at::cat(noisy, 2), at::cat(levels, 1)};
}

class LongRollout : public testing::TestWithParam<ForcingCase> {};

// The video's fate between two windows.
enum class Between { kNothing, kForgets, kResumes };

SelfForced in_windows(OnCache& on, const Setting& s, const std::vector<int64_t>& exits, Between between) {
  std::vector<SelfForced> made;
  std::optional<SelfForcing::Video> video(on.rolls.begin(s.shape(), 0, "test"));
  for (int64_t window = 0; window < kWindows; ++window) {
    if (window > 0 && between == Between::kForgets) on.rolls.forget(*video);
    if (window > 0 && between == Between::kResumes)
      video.emplace(on.rolls.begin(s.shape(), 0, "test", 7, joined_windows(made).x));
    if (between == Between::kResumes) on.cache.reset(7);
    made.push_back(on.rolls.next(*video, s.c.frames / kWindows, on.conditions(), of_window(exits, window)));
  }
  return joined_windows(made);
}

TEST_P(LongRollout, ItsWindowsAreThePartsOfTheWholeVideo) {
  Setting s(GetParam());
  OnCache whole(s), parts(s);
  const auto exits = whole.exits(1);
  const SelfForced want = whole.rolls.roll_out(whole.conditions(), s.shape(), exits, 0, "test");
  for (const Between between : {Between::kNothing, Between::kForgets, Between::kResumes}) {
    const SelfForced got = in_windows(parts, s, exits, between);
    ASSERT_EQ(got.x.sizes(), want.x.sizes());
    EXPECT_LT(furthest(got.x, want.x), 1e-10) << static_cast<int>(between);
    EXPECT_LT(furthest(got.noisy, want.noisy), 1e-10) << static_cast<int>(between);
    EXPECT_TRUE(at::equal(got.levels, want.levels)) << static_cast<int>(between);
  }
}

// All windows but the first learn, so that each gradient passes by keys of earlier windows.
TEST_P(LongRollout, ItsWindowsHaveTheGradientOfTheirChunks) {
  Setting s(GetParam());
  OnCache on(s);
  const int64_t T = s.c.frames / kWindows;
  const auto exits = on.exits(2);
  Tensor weight = s.weight();
  weight.narrow(2, 0, T).zero_();
  SelfForcing::Video video = on.rolls.begin(s.shape(), 0, "test");
  std::vector<SelfForced> made;
  for (int64_t window = 0; window < kWindows; ++window) {
    made.push_back(on.rolls.next(video, T, on.conditions(), of_window(exits, window), &on.earlier));
    const Tensor x = on.estimate(made.back());
    EXPECT_LT(furthest(x.detach(), made.back().x), 1e-10) << "window " << window;
    if (window > 0) (x * weight.narrow(2, window * T, T)).sum().backward();
  }
  on.earlier.clear();
  EXPECT_GT(furthest(on.estimate(made.back()).detach(), made.back().x), 1e-6) << "without earlier keys";
  const Gradients got = on.student.gradients(), want = chunk_by_chunk(s, joined_windows(made), weight);
  ASSERT_EQ(got.size(), want.size());
  EXPECT_LT(most_apart(got, want), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Of, LongRollout,
                         testing::Values(ForcingCase{"dit", 6, 1, 3, 1}, ForcingCase{"dit", 6, 1},
                                         ForcingCase{"dit", 12, 2, 2}, ForcingCase{"wan", 12, 2, 2, 1},
                                         ForcingCase{"dit", 6, 1, 3, 1, 0, "flow-euler"}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// A window of two frames sees the sink and two frames before it, however long the video is.
TEST(LongRolloutMemory, IsTheSameInEveryWindow) {
  constexpr int64_t kMany = 10, T = 2;
  Setting s(ForcingCase{"dit", kMany * T, 1, 3, 1});
  OnCache on(s);
  SelfForcing::Video video = on.rolls.begin(s.shape(), 0, "test");
  int64_t tokens = 0, bytes = 0;
  for (int64_t window = 0; window + 1 < kMany; ++window) {
    on.rolls.next(video, T, on.conditions(), {3, 0}, &on.earlier);
    if (window == 2) tokens = on.cache.tokens(1), bytes = on.earlier.bytes();
    if (window < 2) continue;
    EXPECT_GT(bytes, 0);
    EXPECT_EQ(on.cache.tokens(1), tokens) << "window " << window;
    EXPECT_EQ(on.earlier.bytes(), bytes) << "window " << window;
    EXPECT_LE(on.cache.bytes(1), 3 * bytes) << "window " << window;
  }
  on.rolls.next(video, T, on.conditions(), {3, 0});
  EXPECT_TRUE(video.loop.done());
  EXPECT_EQ(on.cache.tokens(1), 0) << "after the last window";
}

}  // namespace
}  // namespace kinora::core::forcing
