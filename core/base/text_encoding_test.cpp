#include "core/base/text_encoding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

using testing::HasSubstr;

constexpr const char* kText = "a café — “red” 😀\nzwei\n";

// The text in UTF-16 or UTF-32, written from its code points.
std::string wide(const std::u32string& text, size_t size, bool is_big, bool marked) {
  std::string out;
  const auto put = [&](char32_t unit) {
    for (size_t i = 0; i < size; ++i)
      out += static_cast<char>(unit >> 8 * (is_big ? size - 1 - i : i) & 0xFF);
  };
  if (marked) put(0xFEFF);
  for (const char32_t c : text) {
    if (size == 2 && c >= 0x10000) {
      put(0xD800 + ((c - 0x10000) >> 10));
      put(0xDC00 + (c & 0x3FF));
    } else {
      put(c);
    }
  }
  return out;
}

std::string as_utf8(const std::string& bytes, OtherBytes other = OtherBytes::windows_1252) {
  const auto text = utf8_text(bytes, "a.txt", other);
  return text ? *text : text.failure().message;
}

TEST(TextEncoding, IsRecognisedAndConverted) {
  const std::u32string points = U"a café — “red” 😀\nzwei\n";
  EXPECT_EQ(as_utf8(kText), kText);
  EXPECT_EQ(as_utf8(std::string("\xEF\xBB\xBF") + kText), kText);
  for (const size_t size : {2, 4})
    for (const bool is_big : {false, true})
      EXPECT_EQ(as_utf8(wide(points, size, is_big, true)), kText) << size;
  for (const bool is_big : {false, true}) EXPECT_EQ(as_utf8(wide(points, 2, is_big, false)), kText);
  EXPECT_EQ(as_utf8("a caf\xE9 \x97 \x93red\x94\n"), "a café — “red”\n");
  EXPECT_EQ(as_utf8(""), "");
  EXPECT_EQ(as_utf8("Gr\xFC\xDF"
                    "e",
                    OtherBytes::keep),
            "Gr\xFC\xDF"
            "e")
      << "a name of a file";
}

TEST(TextEncoding, ThatIsUnknownIsOneErrorWithThePlace) {
  EXPECT_THAT(as_utf8("one\ntwo \x8D\n"), HasSubstr("a.txt:2: byte 0x8D is neither UTF-8 nor Windows-1252"));
  EXPECT_THAT(as_utf8(std::string("one\ntwo\nth\0ree", 14)), HasSubstr("a.txt:3: a NUL byte"));
  EXPECT_THAT(as_utf8(std::string("th\0ree", 6)), HasSubstr("a.txt:1: a NUL byte"));
  std::string cut = wide(U"one\ntwo", 2, false, true);
  EXPECT_THAT(as_utf8(cut + "x"), HasSubstr("a.txt:2: half a character in UTF-16"));
  EXPECT_THAT(as_utf8(cut + "\x3D\xD8"), HasSubstr("a.txt:2: half a surrogate pair"));
}

}  // namespace
}  // namespace kinora::core
