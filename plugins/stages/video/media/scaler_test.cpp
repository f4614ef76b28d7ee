#include "media/scaler.hpp"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "media/convert.hpp"
#include "media/media_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::error_of;

ff::Owned<AVFrame> flat(int width, int height, AVPixelFormat format, std::array<uint8_t, 3> yuv) {
  auto frame = allocate_picture(width, height, format);
  const int shift = format == AV_PIX_FMT_YUV420P ? 1 : 0;
  for (int plane = 0; plane < 3; ++plane) {
    const int rows = plane == 0 ? height : (height + shift) >> shift;
    std::fill_n(frame->data[plane], ptrdiff_t{frame->linesize[plane]} * rows, yuv[plane]);
  }
  return frame;
}

Bytes scale(const AVFrame& frame, const ScalerOptions& options) {
  Bytes out(static_cast<size_t>(options.width) * options.height * 3);
  Scaler(options).bytes(frame, out.data());
  return out;
}

void expect_near(const Bytes& pixels, std::array<int, 3> colour) {
  for (size_t i = 0; i < pixels.size(); ++i) ASSERT_NEAR(pixels[i], colour[i % 3], 2) << "byte " << i;
}

// Y 81, Cb 90, Cr 240 is pure red by BT.601 (255, 0, 0); BT.709 reads the same numbers as (1.164*65
// + 1.793*112, 1.164*65 - 0.213*(-38) - 0.533*112, 1.164*65 + 2.112*(-38)) = (255, 24, 0). Full range: (81
// + 1.402*112, ...).
TEST(Scaler, FollowsMatrixAndRange) {
  const auto small = flat(64, 48, AV_PIX_FMT_YUV420P, {81, 90, 240});
  ScalerOptions same{.width = 64, .height = 48};
  expect_near(scale(*small, same), {255, 0, 0});  // untagged and small: BT.601
  small->colorspace = AVCOL_SPC_BT709;
  expect_near(scale(*small, same), {255, 24, 0});
  ScalerOptions forced = same;
  forced.matrix = Matrix::bt601;
  expect_near(scale(*small, forced), {255, 0, 0});
  small->colorspace = AVCOL_SPC_SMPTE170M;
  small->color_range = AVCOL_RANGE_JPEG;
  expect_near(scale(*small, same), {238, 14, 14});
  const auto large = flat(1280, 720, AV_PIX_FMT_YUV420P, {81, 90, 240});
  expect_near(scale(*large, same), {255, 24, 0});  // untagged and large: BT.709
}

// YUV is only swscale's way from RGB to RGB, so the assumptions for large and small pictures must not meet.
TEST(Scaler, KeepsTheColoursOfALargeRgbPicture) {
  constexpr int kWidth = 1280, kHeight = 720;
  Bytes rgb;
  for (int i = 0; i < kWidth * kHeight; ++i) rgb.insert(rgb.end(), {32, 192, 64});
  const auto picture = picture_of_rgb(rgb.data(), kWidth, kHeight);
  expect_near(scale(*picture, {.width = 256, .height = 144}), {32, 192, 64});
}

TEST(Scaler, OrderAndFloatsAgreeWithBytes) {
  const auto frame = flat(64, 48, AV_PIX_FMT_YUV420P, {81, 90, 240});
  const ScalerOptions rgb{.width = 16, .height = 8},
      bgr{.width = 16, .height = 8, .order = ChannelOrder::bgr};
  expect_near(scale(*frame, bgr), {0, 0, 255});
  std::vector<float> planes(3 * 16 * 8);
  Scaler(rgb).floats(*frame, planes.data());
  const Bytes bytes = scale(*frame, rgb);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 128; ++i) EXPECT_FLOAT_EQ(planes[c * 128 + i], bytes[i * 3 + c] / 127.5F - 1);
  }
}

// Left half black, right half white; 128 x 32.
ff::Owned<AVFrame> halves() {
  auto frame = flat(128, 32, AV_PIX_FMT_YUV420P, {16, 128, 128});
  for (int y = 0; y < 32; ++y)
    std::fill_n(frame->data[0] + ptrdiff_t{frame->linesize[0]} * y + 64, 64, uint8_t{235});
  return frame;
}

TEST(Scaler, CropKeepsTheCentreAndStretchTheWhole) {
  auto frame = halves();
  std::fill_n(frame->data[0], 16, uint8_t{235});  // white top left corner: kept by stretch, removed by crop
  const ScalerOptions crop{.width = 16, .height = 16, .fit = Fit::crop};
  const Bytes centre = scale(*frame, crop);
  EXPECT_LT(centre[0], 10);
  EXPECT_GT(centre[15 * 3], 245);
  const Bytes whole = scale(*frame, {.width = 128, .height = 32});
  EXPECT_GT(whole[0], 245);
}

// Pixels are twice as high as wide: 128 x 32 stored is shown as 2 : 1, so a 2 : 1 target crops nothing.
TEST(Scaler, CropAccountsForTheSampleAspect) {
  auto frame = halves();
  for (int y = 0; y < 32; ++y)
    std::fill_n(frame->data[0] + ptrdiff_t{frame->linesize[0]} * y, 16, uint8_t{235});
  const ScalerOptions crop{.width = 64, .height = 32, .fit = Fit::crop};
  EXPECT_LT(scale(*frame, crop)[0], 10);
  frame->sample_aspect_ratio = {1, 2};
  EXPECT_GT(scale(*frame, crop)[0], 245);
}

TEST(Scaler, TurnsAfterScaling) {
  const Bytes turned = scale(*halves(), {.width = 8, .height = 32, .rotation = 90});
  EXPECT_LT(turned[0], 10);                   // left became top
  EXPECT_GT(turned[turned.size() - 1], 245);  // right became bottom
}

TEST(Scaler, NeverWritesOutsideTheCallersBuffer) {
  const auto frame = flat(50, 38, AV_PIX_FMT_YUV444P, {120, 128, 128});
  for (const int width : {1, 3, 7, 17, 33}) {
    Bytes guarded(static_cast<size_t>(width) * 5 * 3 + 64, 0xA5);
    Scaler({.width = width, .height = 5}).bytes(*frame, guarded.data());
    for (size_t i = guarded.size() - 64; i < guarded.size(); ++i) ASSERT_EQ(guarded[i], 0xA5) << width;
  }
}

TEST(Scaler, RefusesImpossibleOptions) {
  EXPECT_NE(error_of([] { Scaler({.width = 0, .height = 10}); }).find("0 x 10"), std::string::npos);
  EXPECT_NE(error_of([] { Scaler({.width = 9, .height = 9, .rotation = 45}); }).find("45"),
            std::string::npos);
}

Bytes rotated(Bytes from, int width, int height, int pixel_bytes, int degrees) {
  Bytes to(from.size());
  const int to_width = degrees % 180 == 0 ? width : height;
  rotate_plane({from.data(), ptrdiff_t{width} * pixel_bytes}, width, height, pixel_bytes, degrees,
               {to.data(), ptrdiff_t{to_width} * pixel_bytes});
  return to;
}

// 1 2 3
// 4 5 6
TEST(Rotate, TurnsClockwise) {
  const Bytes plane{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(rotated(plane, 3, 2, 1, 0), plane);
  EXPECT_EQ(rotated(plane, 3, 2, 1, 90), (Bytes{4, 1, 5, 2, 6, 3}));
  EXPECT_EQ(rotated(plane, 3, 2, 1, 180), (Bytes{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(rotated(plane, 3, 2, 1, 270), (Bytes{3, 6, 2, 5, 1, 4}));
}

TEST(Rotate, KeepsPixelsWhole) {
  EXPECT_EQ(rotated({1, 2, 3, 4, 5, 6}, 2, 1, 3, 180), (Bytes{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(rotated({1, 2, 3, 4, 5, 6}, 2, 1, 3, 90), (Bytes{1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace kinora::video
