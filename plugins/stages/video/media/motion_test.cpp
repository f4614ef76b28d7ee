#include "media/motion.hpp"

#include "media/media_testing.hpp"

extern "C" {
#include <libavutil/motion_vector.h>
}

namespace kinora::video {
namespace {

AVMotionVector vector(int w, int h, int x, int y, int dx, int dy, int scale = 4) {
  AVMotionVector v{};
  v.w = static_cast<uint8_t>(w);
  v.h = static_cast<uint8_t>(h);
  v.dst_x = static_cast<int16_t>(x);
  v.dst_y = static_cast<int16_t>(y);
  v.motion_x = dx * scale;
  v.motion_y = dy * scale;
  v.motion_scale = static_cast<uint16_t>(scale);
  return v;
}

std::vector<AVMotionVector> everywhere(int width, int height, int dx, int dy) {
  std::vector<AVMotionVector> all;
  for (int y = 8; y < height + 8; y += 16)
    for (int x = 8; x < width + 8; x += 16) all.push_back(vector(16, 16, x, y, dx, dy));
  return all;
}

TEST(Motion, ATranslationIsItsLength) {
  for (const auto& [width, height] : {std::pair{512, 512}, {640, 360}, {100, 50}, {1, 1}}) {
    MotionField field(width, height);
    const auto all = everywhere(width, height, 3, -4);
    for (int i = 0; i < 7; ++i) field.add(all.data(), all.size());
    EXPECT_NEAR(field.result().global_mean, 5.0 / (width + height), 1e-7);
    EXPECT_NEAR(field.result().patch_min, 5.0 / (width + height), 1e-7);
    EXPECT_EQ(field.result().frames, 7);
  }
}

// Blocks count by their area over all frames; unpainted pixels are still; other block sizes are ignored.
TEST(Motion, MeansOverPixelsAndFrames) {
  MotionField field(512, 256);
  const AVMotionVector some[] = {vector(16, 8, 16, 16, 6, 8), vector(8, 8, 100, 100, 0, 10),
                                 vector(4, 4, 50, 50, 9, 9)};
  field.add(some, 3);
  field.add(nullptr, 0);
  EXPECT_NEAR(field.result().global_mean, 10.0 / 768 * (16 * 8 + 8 * 8) / (512.0 * 256) / 2, 1e-10);
  EXPECT_EQ(field.result().patch_min, 0);
}

TEST(Motion, TheLaterPaintsOverTheEarlierAndTheOutsideOverTheBorder) {
  MotionField field(64, 64);
  // Sizes come first: the 16 x 16 block is painted after the 8 x 8 one, although it is listed before.
  const AVMotionVector some[] = {vector(16, 16, 16, 16, 0, 2), vector(8, 8, 16, 16, 0, 100)};
  field.add(some, 2);
  EXPECT_NEAR(field.result().global_mean, 2.0 / 128 * 256 / 4096, 1e-9);
  MotionField border(64, 64);
  const AVMotionVector outside[] = {vector(16, 16, -20, 32, 0, 8)};  // its 16 rows of column 0
  border.add(outside, 1);
  EXPECT_NEAR(border.result().global_mean, 8.0 / 128 * 16 / 4096, 1e-9);
}

// A patch's value is interpolated between its four middle pixels.
TEST(Motion, APatchIsSeenInItsMiddle) {
  MotionField field(768, 256);
  std::vector<AVMotionVector> all;
  for (int patch = 0; patch < 3; ++patch)
    all.push_back(vector(8, 8, 256 * patch + 128, 128, 0, 4 * (patch + 1)));
  field.add(all.data(), all.size());
  EXPECT_NEAR(field.result().patch_min, 4.0 / 1024, 1e-9);
  all.erase(all.begin());
  MotionField hole(768, 256);
  hole.add(all.data(), all.size());
  EXPECT_EQ(hole.result().patch_min, 0);
}

TEST(Motion, NoFrameWithVectorsIsNoMeasure) {
  EncoderOptions options = testing::small_video();
  const testing::Bytes video = testing::make_video(options, 1);
  MemorySource source{std::span(video)};
  const Motion motion = measure_motion(source, "film", {});
  EXPECT_EQ(motion.frames, 0);
  EXPECT_EQ(motion.global_mean, -1);
}

TEST(Motion, RefusesCodecsWithoutVectors) {
  FileSource video(testing::data("film_excerpt.webm"));
  EXPECT_NE(
      testing::error_of([&] { measure_motion(video, "film.webm", {}); }).find("gives no motion vectors"),
      std::string::npos);
}

TEST(Motion, AStillPictureIsStillAndAVideoMoves) {
  EncoderOptions options = testing::small_video(320, 256);
  Encoder encoder(options);
  for (int i = 0; i < 60; ++i) encoder.write_rgb(testing::picture(320, 256, 0).data());
  const testing::Bytes still = encoder.finish();
  MemorySource source{std::span(still)};
  EXPECT_LT(measure_motion(source, "still", {}).global_mean, 1e-6);
  FileSource video(testing::data("bbb_A.mp4"));
  EXPECT_GT(measure_motion(video, "film", {}).global_mean, 1e-4);
}

}  // namespace
}  // namespace kinora::video
