#include "plugins/jobs/media/stills.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "plugins/jobs/training/video_jobs_testing.hpp"

namespace kinora::core {
namespace stills_test {

// Frames [first, first + count) of a video, each of one grey: ten times its number.
at::Tensor greys(int64_t first, int64_t count, int64_t height, int64_t width) {
  const at::Tensor numbers = at::arange(first, first + count, at::kLong) * 10;
  return numbers.to(at::kByte).view({-1, 1, 1, 1}).expand({count, height, width, 3}).contiguous();
}

TEST(Stills, ShowTheFirstFrameAtOnceAndTheWholeVideoAtItsEnd) {
  const at::NoGradGuard off;
  const ScratchRun run;
  JobContext context = run.context("film");
  Stills stills(context, run.folder(), 20);
  int64_t first = 0;
  for (const int64_t count : {1, 8, 8, 3}) {
    stills.add(greys(first, count, 64, 800));
    first += count;
    EXPECT_TRUE(fs::exists(run.folder() / "thumbnail.webp"));
    EXPECT_FALSE(fs::exists(run.folder() / "spritesheet.jpg"));
  }
  stills.finish();
  const at::Tensor thumbnail = decoded(read_bytes(run.folder() / "thumbnail.webp"), json::object());
  EXPECT_EQ(thumbnail.sizes(), (std::vector<int64_t>{1, 41, 512, 3}));  // 64 * 512 / 800
  EXPECT_LE(thumbnail.max().item<int64_t>(), 4);
  const at::Tensor sheet = decoded(read_bytes(run.folder() / "spritesheet.jpg"), json::object());
  ASSERT_EQ(sheet.sizes(), (std::vector<int64_t>{1, 13, 1600, 3}));
  const std::vector<int64_t> numbers{0, 2, 4, 6, 8, 11, 13, 15, 17, 19};
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_NEAR(sheet.narrow(2, static_cast<int64_t>(i) * 160 + 16, 128).to(at::kFloat).mean().item<double>(),
                static_cast<double>(numbers[i] * 10), 4)
        << i;
  EXPECT_FALSE(fs::exists(run.folder() / "picture.png"));
}

TEST(Stills, OfOneFrameAreThatFrame) {
  const at::NoGradGuard off;
  const ScratchRun run;
  JobContext context = run.context("film");
  Stills stills(context, run.folder(), 1);
  const at::Tensor frame =
      at::arange(16 * 24 * 3, at::kLong).remainder(251).to(at::kByte).view({1, 16, 24, 3});
  stills.add(frame);
  stills.finish();
  EXPECT_TRUE(at::equal(decoded(read_bytes(run.folder() / "picture.png"), json::object()), frame));
  for (const char* name : {"thumbnail.webp", "spritesheet.jpg"})
    EXPECT_EQ(decoded(read_bytes(run.folder() / name), json::object()).sizes(), frame.sizes()) << name;
}

TEST(Stills, ThatCannotBeWrittenCostNoVideo) {
  const ScratchRun run;
  JobContext context = run.context("film");
  Stills stills(context, run.folder() / "none", 2);
  EXPECT_NO_THROW(stills.add(greys(0, 1, 16, 16)));
  EXPECT_NO_THROW(stills.add(greys(1, 1, 16, 16)));
  EXPECT_NO_THROW(stills.finish());
  EXPECT_FALSE(fs::exists(run.folder() / "none"));
}

}  // namespace stills_test
}  // namespace kinora::core
