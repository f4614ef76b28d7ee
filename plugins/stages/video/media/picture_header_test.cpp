// The headers of picture files, and what is refused before a decoder sees it.
#include "media/picture_header.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::video {
namespace {

using std::string;
using ::testing::HasSubstr;

string big_endian(uint32_t value, int bytes) {
  string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}
string little_endian(uint32_t value, int bytes) {
  const string out = big_endian(value, bytes);
  return {out.rbegin(), out.rend()};
}
string with_zero(const char* text) { return string(text) + '\0'; }

string png_chunk(const string& type, const string& content) {
  return big_endian(static_cast<uint32_t>(content.size()), 4) + type + content + big_endian(0, 4);
}
string png_file(uint32_t width, uint32_t height, const string& chunks = "") {
  return "\x89PNG\r\n\x1A\n" +
         png_chunk("IHDR", big_endian(width, 4) + big_endian(height, 4) + big_endian(0x08020000, 4) +
                               big_endian(0, 1)) +
         chunks + png_chunk("IEND", "");
}
string jpeg_file(uint32_t width, uint32_t height, const string& frame_marker = "\xC2") {
  const string app =
      "\xFF\xE1" + big_endian(6, 2) + "\xFF\xC0..";  // what looks like a frame header in it is none
  return "\xFF\xD8" + app + "\xFF\xFF" + frame_marker + big_endian(11, 2) + big_endian(8, 1) +
         big_endian(height, 2) + big_endian(width, 2);
}
string webp_file(const string& type, const string& content) {
  const string body = "WEBP" + type + little_endian(static_cast<uint32_t>(content.size()), 4) + content;
  return "RIFF" + little_endian(static_cast<uint32_t>(body.size()), 4) + body;
}
string extended_webp(char flags, uint32_t width, uint32_t height) {
  return webp_file("VP8X", string(1, flags) + string(3, '\0') + little_endian(width - 1, 3) +
                               little_endian(height - 1, 3));
}

std::span<const uint8_t> bytes_in(const string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}
string size_or_error(const string& file) {
  try {
    const PictureHeader out = picture_header(bytes_in(file), "a");
    return string(out.field) + " " + std::to_string(out.width) + " x " + std::to_string(out.height);
  } catch (const MediaError& e) {
    return e.what();
  }
}

TEST(PictureHeader, HasTheSizeOfEachFormat) {
  EXPECT_EQ(size_or_error(jpeg_file(640, 480)), "jpg 640 x 480");
  EXPECT_EQ(size_or_error(png_file(300, 200)), "png 300 x 200");
  EXPECT_EQ(size_or_error(extended_webp(0x10, 16384, 1)), "webp 16384 x 1");
  EXPECT_EQ(size_or_error(webp_file("VP8L", "\x2F" + little_endian(332 | 49 << 14 | 1 << 28, 4))),
            "webp 333 x 50");
  EXPECT_EQ(size_or_error(webp_file("VP8 ", string(3, 'x') + "\x9D\x01\x2A" + little_endian(70 | 1 << 14, 2) +
                                                little_endian(60, 2))),
            "webp 70 x 60");
}

TEST(PictureHeader, RefusesSizesAboveTheLimits) {
  EXPECT_THAT(size_or_error(png_file(100'000, 100'000)), HasSubstr("100000 x 100000"));
  EXPECT_THAT(size_or_error(png_file(0xFFFFFFFF, 0xFFFFFFFF)), HasSubstr("over the limit"));
  EXPECT_THAT(size_or_error(png_file(16000, 16000)), HasSubstr("67108864 in total"));
  EXPECT_THAT(size_or_error(jpeg_file(65500, 2)), HasSubstr("16384 per side"));
  EXPECT_THAT(size_or_error(jpeg_file(640, 0)), HasSubstr("no picture size"));
}

TEST(PictureHeader, RefusesAnimations) {
  EXPECT_THAT(size_or_error(extended_webp(2, 70, 70)), HasSubstr("an animation"));
  EXPECT_THAT(size_or_error(png_file(4, 4, png_chunk("acTL", big_endian(2, 4) + big_endian(0, 4)))),
              HasSubstr("an animation"));
}

TEST(PictureHeader, RefusesWhatWouldInflateWithoutBound) {
  const string half(130'000, 'z');
  EXPECT_EQ(size_or_error(png_file(4, 4, png_chunk("zTXt", half))), "png 4 x 4");
  EXPECT_EQ(size_or_error(png_file(4, 4, png_chunk("IDAT", half + half + half))), "png 4 x 4");
  EXPECT_THAT(size_or_error(png_file(
                  4, 4, png_chunk("zTXt", half) + png_chunk("tIME", "") + png_chunk("iCCP", half + half))),
              HasSubstr("256 KiB"));
}

// Every beginning of a file is refused, or has the whole file's size: none is read beyond its end.
TEST(PictureHeader, OfAFileThatIsCutOffIsAnErrorOrTheSize) {
  for (const string& whole : {jpeg_file(640, 480), png_file(300, 200, png_chunk("tEXt", with_zero("key"))),
                              extended_webp(0, 70, 70)})
    for (size_t size = 12; size < whole.size(); ++size) {
      const string part = whole.substr(0, size);
      EXPECT_TRUE(size_or_error(part) == size_or_error(whole) || size_or_error(part).starts_with("a: "))
          << size_or_error(part);
    }
  EXPECT_THAT(size_or_error(png_file(4, 4).substr(0, 40)), HasSubstr("cut off"));
  EXPECT_THAT(size_or_error(extended_webp(0, 70, 70).substr(0, 25)), HasSubstr("cut off"));
  EXPECT_THAT(size_or_error("\xFF\xD8\xFF\xE0" + big_endian(0xFFFF, 2)),
              HasSubstr("ends before its picture"));
  EXPECT_THAT(size_or_error("\xFF\xD8\xFFx__________"), HasSubstr("ends before its picture"));
}

TEST(PictureHeader, IsKnownByTheFirstTwelveBytes) {
  for (const string& file : {jpeg_file(1, 1), png_file(1, 1), extended_webp(0, 1, 1)})
    EXPECT_TRUE(begins_as_picture(bytes_in(file).first(12)));
  for (const string& file : {string("RIFF....AVI "), string("GIF89a"), string(), string("\xFF\xD8", 2)})
    EXPECT_FALSE(begins_as_picture(bytes_in(file)));
}

}  // namespace
}  // namespace kinora::video
