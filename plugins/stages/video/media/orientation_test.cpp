#include "media/orientation.hpp"

#include <gtest/gtest.h>

namespace kinora::video {
namespace {

using Bytes = std::vector<uint8_t>;

// Little-endian, with another tag before it.
Bytes tiff(int type, int value) {
  return {'I',
          'I',
          42,
          0,
          8,
          0,
          0,
          0,
          2,
          0,
          0x0F,
          0x01,
          2,
          0,
          1,
          0,
          0,
          0,
          'x',
          0,
          0,
          0,
          0x12,
          0x01,
          static_cast<uint8_t>(type),
          0,
          1,
          0,
          0,
          0,
          static_cast<uint8_t>(value),
          0,
          0,
          0,
          0,
          0,
          0,
          0};
}

Bytes webp(const Bytes& exif) {
  Bytes out{'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P', 'V', 'P', '8', ' ', 3, 0, 0, 0, 1, 2, 3, 0};
  for (const char c : {'E', 'X', 'I', 'F'}) out.push_back(static_cast<uint8_t>(c));
  for (const auto b : {exif.size(), size_t{0}, size_t{0}, size_t{0}}) out.push_back(static_cast<uint8_t>(b));
  out.insert(out.end(), exif.begin(), exif.end());
  return out;
}

bool swaps(const Bytes& file) { return Orientation::of(std::span(file)).swaps_sides(); }
bool is_upright(const Bytes& file) { return Orientation::of(std::span(file)).is_upright(); }

TEST(Orientation, OfWebpIsThatOfItsExifChunk) {
  EXPECT_TRUE(swaps(webp(tiff(3, 6))));
  Bytes named{'E', 'x', 'i', 'f', 0, 0};
  const Bytes its = tiff(3, 8);
  named.insert(named.end(), its.begin(), its.end());
  EXPECT_TRUE(swaps(webp(named)));
  EXPECT_FALSE(is_upright(webp(tiff(3, 3))));
  EXPECT_FALSE(swaps(webp(tiff(3, 3))));
}

constexpr const char* kXmpForms[] = {
    R"(<rdf:Description tiff:Orientation="6"/>)", R"(<rdf:Description tiff:Orientation = '6' a="1"/>)",
    "<tiff:Orientation>6</tiff:Orientation>", "<tiff:Orientation>\n 6 \n</tiff:Orientation>"};

void append(Bytes& to, std::string_view text) { to.insert(to.end(), text.begin(), text.end()); }

// JPEG, PNG and WebP files with this XMP, and without or with Exif's tag behind it.
std::vector<Bytes> files_with(std::string_view xmp, const Bytes& exif = {}) {
  using namespace std::string_view_literals;
  Bytes jpeg{0xFF, 0xD8}, png, web{'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P'};
  const auto segment = [&](std::string_view name, std::string_view content) {
    const size_t length = 2 + name.size() + content.size();
    jpeg.insert(jpeg.end(), {0xFF, 0xE1, static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length)});
    append(jpeg, name), append(jpeg, content);
  };
  const auto png_chunk = [&](std::string_view type, std::string_view name, std::string_view content) {
    const size_t length = name.size() + content.size();
    png.insert(png.end(), {0, 0, static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length)});
    append(png, type), append(png, name), append(png, content), append(png, "crc ");
  };
  const auto web_chunk = [&](std::string_view type, std::string_view content) {
    append(web, type);
    web.insert(web.end(),
               {static_cast<uint8_t>(content.size()), static_cast<uint8_t>(content.size() >> 8), 0, 0});
    append(web, content);
    if (content.size() % 2 != 0) web.push_back(0);
  };
  const std::string_view tag(reinterpret_cast<const char*>(exif.data()), exif.size());
  append(png, "\x89PNG\r\n\x1A\n"sv);
  segment("http://ns.adobe.com/xap/1.0/\0"sv, xmp);
  png_chunk("iTXt", "XML:com.adobe.xmp\0\0\0\0\0"sv, xmp);
  web_chunk("XMP ", xmp);
  if (!exif.empty()) {
    segment("Exif\0\0"sv, tag);
    png_chunk("eXIf", "", tag);
    web_chunk("EXIF", tag);
  }
  return {jpeg, png, web};
}

TEST(Orientation, IsThatOfXmpWhereExifHasNone) {
  Bytes without = tiff(3, 6);
  without[22] = 0x10;  // another tag
  for (const char* form : kXmpForms) {
    for (const Bytes& file : files_with(form))
      EXPECT_EQ(Orientation::of(std::span(file)), Orientation(90)) << form;
    for (const Bytes& file : files_with(form, without)) EXPECT_TRUE(swaps(file)) << form;
    for (const Bytes& file : files_with(form, tiff(3, 1))) EXPECT_TRUE(is_upright(file)) << form;
    for (const Bytes& file : files_with(form, tiff(3, 3)))
      EXPECT_EQ(Orientation::of(std::span(file)), Orientation(180));
  }
  for (const char* other :
       {"", "tiff:Orientation", "tiff:Orientation=", "tiff:Orientation=\"", "tiff:Orientation=\"9\"",
        "tiff:Orientation=\"60\"", "tiff:Orientation6", "<tiff:Orientation>", "<tiff:Orientation>6"})
    for (const Bytes& file : files_with(other)) EXPECT_TRUE(is_upright(file)) << other;
}

TEST(Orientation, OfAnythingElseIsUpright) {
  EXPECT_TRUE(is_upright(webp(tiff(3, 1))));
  EXPECT_TRUE(is_upright(webp(tiff(3, 9)))) << "no such value";
  EXPECT_TRUE(is_upright(webp(tiff(4, 6)))) << "no such type";
  EXPECT_TRUE(is_upright({}));
  EXPECT_TRUE(is_upright({0, 0, 0, 20, 'f', 't', 'y', 'p'}));
  const Bytes whole = webp(tiff(3, 6));
  for (size_t n = 0; n + 8 < whole.size(); ++n)  // the tag's value is 8 bytes before the end
    EXPECT_TRUE(is_upright({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)})) << n;
}

}  // namespace
}  // namespace kinora::video
