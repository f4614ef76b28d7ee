#include "media/image.hpp"

#include <cstring>

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

struct Chunk {
  std::string name;
  Bytes content;
};

uint32_t little(const uint8_t* at, int bytes) {
  uint32_t out = 0;
  for (int i = 0; i < bytes; ++i) out |= static_cast<uint32_t>(at[i]) << (8 * i);
  return out;
}

// Splits RIFF content into chunks, as the container's specification defines them.
std::vector<Chunk> chunks(const uint8_t* at, const uint8_t* end) {
  std::vector<Chunk> out;
  while (end - at >= 8) {
    const uint32_t size = little(at + 4, 4);
    out.push_back({std::string(at, at + 4), Bytes(at + 8, at + 8 + size)});
    at += 8 + size + size % 2;
  }
  return out;
}

TEST(Webp, HoldsEveryFrameForItsTimeAndLooksLikeIt) {
  const int width = 65, height = 48, frames = 5;
  WebpWriter writer(width, height, {25, 1}, 90);
  for (int i = 0; i < frames; ++i) writer.write_rgb(testing::picture(width, height, i * 4).data());
  const Bytes file = writer.finish();
  ASSERT_GT(file.size(), 12U);
  EXPECT_EQ(std::string(file.begin(), file.begin() + 4) + std::string(file.begin() + 8, file.begin() + 12),
            "RIFFWEBP");
  int shown = 0, looked_at = 0;
  for (const auto& chunk : chunks(file.data() + 12, file.data() + file.size())) {
    if (chunk.name == "ANIM") {
      EXPECT_EQ(little(chunk.content.data() + 4, 2), 0U) << "repeats endlessly";
    }
    if (chunk.name != "ANMF") continue;
    ++shown;
    EXPECT_EQ(little(chunk.content.data() + 12, 3), 40U) << "milliseconds";
    const auto inner = chunks(chunk.content.data() + 16, chunk.content.data() + chunk.content.size());
    if (shown > 1 || inner.at(0).name != "VP8 ") continue;
    // A single frame is a still WebP, which FFmpeg decodes.
    Bytes still = testing::text("RIFF....WEBPVP8 ....");
    still.insert(still.end(), inner[0].content.begin(), inner[0].content.end());
    const auto put = [&](size_t at, size_t n) {
      for (size_t i = 0; i < 4; ++i) still[at + i] = static_cast<uint8_t>(n >> (8 * i));
    };
    put(16, inner[0].content.size());
    put(4, still.size() - 8);
    MemorySource source{std::span(still)};
    Decoder decoder(source, "image");
    const Frame* frame = decoder.next();
    ASSERT_NE(frame, nullptr);
    Bytes rgb(static_cast<size_t>(width) * height * 3);
    Scaler({.width = width, .height = height}).bytes(*frame->picture, rgb.data());
    const Bytes want = testing::picture(width, height, 0);
    double error = 0;
    for (size_t i = 0; i < rgb.size(); ++i) error += std::abs(int(rgb[i]) - int(want[i]));
    EXPECT_LT(error / static_cast<double>(rgb.size()), 4) << "grey levels, on average";
    ++looked_at;
  }
  EXPECT_EQ(shown, frames);
  EXPECT_EQ(looked_at, 1);
}

TEST(Webp, RefusesASizeThatTheFormatCannotHold) {
  EXPECT_NE(testing::error_of([] {
              WebpWriter(20000, 10, {24, 1}, 80);
            }).find("1 to 16383"),
            std::string::npos);
}

}  // namespace
}  // namespace kinora::video
