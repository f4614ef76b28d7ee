#include "media/jpeg.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <turbojpeg.h>

#include "media/media_testing.hpp"
#include "media/scaler.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;
using testing::error_of;

Bytes owned(unsigned char* bytes, unsigned long size) {
  Bytes out(bytes, bytes + size);
  tjFree(bytes);
  return out;
}

using Coder = std::unique_ptr<void, int (*)(tjhandle)>;

Bytes encoded(const Bytes& pixels, int width, int height, int sampling, int flags = 0,
              int format = TJPF_RGB) {
  const Coder coder(tjInitCompress(), tjDestroy);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(coder.get(), pixels.data(), width, 0, height, format, &bytes, &size, sampling, 92,
                        flags | TJFLAG_ACCURATEDCT),
            0);
  return owned(bytes, size);
}

std::optional<JpegPicture> opened(const Bytes& file, const Limits& limits = {}) {
  MemorySource source{std::span(file)};
  return JpegPicture::open(source, "a.jpg", limits);
}

Bytes decoded(JpegPicture& picture) {
  Bytes out(static_cast<size_t>(picture.width()) * picture.height() * 3);
  EXPECT_TRUE(picture.decode(out.data(), 3 * picture.width()));
  return out;
}

Bytes decoded(const Bytes& file) {
  auto picture = opened(file);
  if (!picture) return {};
  Bytes out = decoded(*picture);
  EXPECT_EQ(picture->damaged(), "");
  return out;
}

Bytes by_ffmpeg(const Bytes& file, int width, int height) {
  MemorySource source{std::span(file)};
  Decoder decoder(source, "a.jpg");
  const Frame* frame = decoder.next();
  if (frame == nullptr) return {};
  Bytes out(static_cast<size_t>(width) * height * 3);
  Scaler({.width = width, .height = height}).bytes(*frame->picture, out.data());
  return out;
}

// Without subsampled chroma all decoders agree but for rounding: of the inverse DCT, which moves a channel by
// up to 1.8, and of the conversion.
TEST(Jpeg, EqualsFfmpegsDecoderWhereNoChromaIsInterpolated) {
  for (const auto& [width, height] : {std::pair{64, 48}, {33, 17}, {8, 8}, {1, 1}})
    for (const int sampling : {TJSAMP_444, TJSAMP_GRAY}) {
      const Bytes file = encoded(testing::picture(width, height, 1), width, height, sampling);
      const Bytes found = decoded(file), expected = by_ffmpeg(file, width, height);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 4) << i;
    }
}

// The colours of JFIF 1.02, section 7, from chroma that is interpolated: a sample has three quarters of the nearest one
// and a quarter of the next. Each block is flat, and quality 100 keeps it as it is.
TEST(Jpeg, InterpolatesChromaBeforeItIsConverted) {
  constexpr int kWidth = 32, kHeight = 16, kLeft = 100, kRight = 160, kLuma = 120;
  Bytes y(kWidth * kHeight, kLuma), cb(kWidth / 2 * kHeight, 128), cr(cb.size());
  for (size_t i = 0; i < cr.size(); ++i) cr[i] = i % 16 < 8 ? kLeft : kRight;
  const uint8_t* planes[] = {y.data(), cb.data(), cr.data()};
  const int strides[] = {kWidth, kWidth / 2, kWidth / 2};
  const Coder coder(tjInitCompress(), tjDestroy);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  ASSERT_EQ(tjCompressFromYUVPlanes(coder.get(), planes, kWidth, strides, kHeight, TJSAMP_422, &bytes, &size,
                                    100, TJFLAG_ACCURATEDCT),
            0);
  const Bytes found = decoded(owned(bytes, size));
  ASSERT_EQ(found.size(), size_t{kWidth * kHeight * 3});
  for (int x = 0; x < kWidth; ++x) {
    const auto chroma = [&](int i) { return std::clamp(i, 0, 15) < 8 ? kLeft : kRight; };
    const double red = 0.75 * chroma(x / 2) + 0.25 * chroma(x / 2 + (x % 2 ? 1 : -1)) - 128;
    const uint8_t* pixel = &found[static_cast<size_t>(5 * kWidth + x) * 3];
    EXPECT_NEAR(pixel[0], kLuma + 1.402 * red, 2) << x;
    EXPECT_NEAR(pixel[1], kLuma - 0.714136 * red, 2) << x;
    EXPECT_NEAR(pixel[2], kLuma, 1) << x;
  }
}

TEST(Jpeg, ProgressiveHasThePixelsOfBaseline) {
  const Bytes rgb = testing::picture(65, 49, 2);
  for (const int sampling : {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_GRAY}) {
    const Bytes found = decoded(encoded(rgb, 65, 49, sampling, TJFLAG_PROGRESSIVE));
    EXPECT_EQ(found, decoded(encoded(rgb, 65, 49, sampling)));
    EXPECT_EQ(found.size(), rgb.size());
  }
}

TEST(Jpeg, LeavesAllElseToFfmpeg) {
  const Bytes rgb = testing::picture(32, 16, 1), file = encoded(rgb, 32, 16, TJSAMP_420);
  EXPECT_FALSE(opened({}));
  EXPECT_FALSE(opened(testing::text("\x89PNG\r\n\x1a\n")));
  EXPECT_FALSE(opened({file.begin(), file.begin() + 20})) << "no header";
  EXPECT_FALSE(opened(encoded(Bytes(32 * 16 * 4, 90), 32, 16, TJSAMP_444, 0, TJPF_CMYK)));
  EXPECT_TRUE(opened(file, {.max_side = 32}));
  EXPECT_FALSE(opened(file, {.max_side = 31}));
  EXPECT_FALSE(opened(file, {.max_pixels = 511}));
  Bytes two = file;
  two.insert(two.end(), file.begin(), file.end());
  EXPECT_FALSE(opened(two));
  Bytes followed = file;
  followed.insert(followed.end(), 1000, 'x');
  EXPECT_EQ(decoded(followed), decoded(file)) << "other bytes may follow";
  Bytes wide = file;
  const auto jfif = std::search(wide.begin(), wide.end(), "JFIF", "JFIF" + 4);
  ASSERT_NE(jfif, wide.end());
  jfif[9] = 2, jfif[11] = 1;  // densities 2 : 1
  EXPECT_FALSE(opened(wide));
}

TEST(Jpeg, NoticesWhatIsCutOff) {
  for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
    const Bytes file = encoded(testing::picture(96, 64, 1), 96, 64, TJSAMP_420, flags);
    for (const double kept : {0.4, 0.7, 0.95}) {
      auto picture = opened(
          {file.begin(), file.begin() + static_cast<int64_t>(kept * static_cast<double>(file.size()))});
      ASSERT_TRUE(picture) << kept;
      decoded(*picture);
      EXPECT_NE(picture->damaged().find("a.jpg: a damaged JPEG"), std::string::npos) << kept;
      MemorySource source{std::span(file).first(file.size() / 2)};
      const Counted counted = count_frames(source, "a.jpg");
      EXPECT_EQ(counted.frames, 1);
      EXPECT_NE(counted.damaged, "");
    }
    MemorySource whole{std::span(file)};
    EXPECT_EQ(count_frames(whole, "a.jpg").damaged, "");
  }
}

TEST(Jpeg, RefusesMoreScansThanAnEncoderWrites) {
  const Bytes file = encoded(testing::picture(32, 16, 1), 32, 16, TJSAMP_420, TJFLAG_PROGRESSIVE);
  constexpr uint8_t kScan[] = {0xFF, 0xDA}, kEnd[] = {0xFF, 0xD9};
  const auto last = std::find_end(file.begin(), file.end(), kScan, kScan + 2);
  ASSERT_NE(last, file.end());
  Bytes bomb(file.begin(), last);
  for (int i = 0; i < 501; ++i) bomb.insert(bomb.end(), last, file.end() - 2);
  bomb.insert(bomb.end(), kEnd, kEnd + 2);
  EXPECT_NE(error_of([&] { opened(bomb); }).find("a.jpg: a JPEG of more than 500 scans"), std::string::npos);
}

TEST(Jpeg, AnyBytesGiveAPictureWithinTheLimitsOrNone) {
  std::mt19937 random(5);
  for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
    const Bytes whole = encoded(testing::picture(48, 32, 1), 48, 32, TJSAMP_420, flags);
    for (int round = 0; round < 500; ++round) {
      Bytes file = whole;
      for (int i = 0; i < 1 + round % 12; ++i)
        file[random() % (round % 2 ? file.size() : 256)] ^= uint8_t{1} << random() % 8;
      auto picture = opened(file, {.max_pixels = 1 << 16});
      if (!picture) continue;
      ASSERT_LE(picture->width() * picture->height(), 1 << 16);
      Bytes rgb(static_cast<size_t>(picture->width()) * picture->height() * 3);
      picture->decode(rgb.data(), 3 * picture->width());
    }
  }
}

}  // namespace
}  // namespace kinora::video
