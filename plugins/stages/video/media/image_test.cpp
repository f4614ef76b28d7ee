#include "media/image.hpp"

#include "media/media_testing.hpp"
#include "media/scaler.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::error_of;

Bytes decode_image(const Bytes& file, int width, int height) {
  MemorySource source{std::span(file)};
  Decoder decoder(source, "image");
  const Frame* frame = decoder.next();
  EXPECT_NE(frame, nullptr);
  if (frame == nullptr) return {};
  EXPECT_EQ(frame->picture->width, width);
  EXPECT_EQ(frame->picture->height, height);
  Bytes rgb(static_cast<size_t>(width) * height * 3);
  Scaler({.width = width, .height = height}).bytes(*frame->picture, rgb.data());
  EXPECT_EQ(decoder.next(), nullptr);
  return rgb;
}

TEST(Image, PngIsLosslessAtAnySize) {
  for (const auto& [width, height] : {std::pair{64, 48}, {33, 17}, {1, 1}}) {
    const Bytes rgb = testing::picture(width, height, 1);
    const Bytes file = encode_image(rgb.data(), height, width, "png");
    EXPECT_EQ(Bytes(file.begin(), file.begin() + 8), (Bytes{0x89, 'P', 'N', 'G', 0x0D, 0x0A, 0x1A, 0x0A}));
    EXPECT_EQ(decode_image(file, width, height), rgb);
  }
}

TEST(Image, JpegIsCloseAndBetterWithQuality) {
  const int width = 65, height = 49;
  const Bytes rgb = testing::picture(width, height, 1);
  double last = 0;
  for (const int quality : {20, 60, 95}) {
    const Bytes file = encode_image(rgb.data(), height, width, "jpeg", quality);
    EXPECT_EQ(file[0] << 8 | file[1], 0xFFD8);
    EXPECT_EQ(file[file.size() - 2] << 8 | file.back(), 0xFFD9);
    const double match = testing::psnr(decode_image(file, width, height), rgb);
    EXPECT_GT(match, last) << quality;
    last = match;
  }
  EXPECT_GT(last, 38);
}

TEST(Image, SamePictureSameBytes) {
  const Bytes rgb = testing::picture(64, 48, 1);
  for (const char* format : {"png", "jpeg"}) {
    EXPECT_EQ(encode_image(rgb.data(), 48, 64, format), encode_image(rgb.data(), 48, 64, format)) << format;
  }
}

TEST(Image, RefusesWhatItCannotWrite) {
  const Bytes rgb(12);
  EXPECT_NE(error_of([&] { encode_image(rgb.data(), 2, 2, "tiff"); }).find("'tiff'"), std::string::npos);
  EXPECT_NE(error_of([&] { encode_image(rgb.data(), 2, 2, "jpeg", 0); }).find("quality 0"),
            std::string::npos);
  EXPECT_NE(error_of([&] { encode_image(rgb.data(), 0, 2, "png"); }).find("2 x 0"), std::string::npos);
}

}  // namespace
}  // namespace kinora::video
