// Compares with ftfy 6.3.1 (tests/oracle/make_repair_tables.py); tests/oracle/repair_oracle.py does so with 10,000
// strings.
#include "repair.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "byte_patterns.hpp"
#include "clean.hpp"

namespace kinora::text {
namespace {

TEST(Repair, IsThatOfFtfyAndHtml) {
  std::ifstream in(std::string(KINORA_TEST_DATA) + "/oracle/repaired_texts.json");
  const auto pairs = nlohmann::json::parse(in);
  ASSERT_GE(pairs.size(), 800U);
  for (const auto& pair : pairs)
    ASSERT_EQ(cleaned(pair[0].get<std::string>()), pair[1].get<std::string>()) << pair.dump();
}

TEST(Repair, OfWhatPeopleWrite) {
  EXPECT_EQ(cleaned("A “boat” at sea… it’s  late"), "A \"boat\" at sea… it's late");
  EXPECT_EQ(cleaned("cafÃ© crÃ¨me"), "café crème");
  EXPECT_EQ(cleaned("\x1b[31mred\x1b[0m \x07sea\xEF\xBB\xBF"), "red sea");
  EXPECT_EQ(cleaned("ﬁne ﬂow ＦＵＬＬ"), "fine flow FULL");
  EXPECT_EQ(cleaned("plain text, unchanged: naïve Größe 25 °C 日本"),
            "plain text, unchanged: naïve Größe 25 °C 日本");
  EXPECT_EQ(repaired("&lt;b&gt; <i>"), "&lt;b&gt; <i>") << "a text with < is HTML";
  EXPECT_EQ(repaired("a\r\nb\rc"), "a\nb\nc");
  EXPECT_EQ(repaired(""), "");
  EXPECT_EQ(repaired("e\u0301"), "\u00e9");
  EXPECT_EQ(repaired("a\xff"), "a\uFFFD");
}

TEST(Repair, ReadsTheVariantsOfUtf8) {
  EXPECT_EQ(decoded_variants("\xED\xA0\xBD\xED\xB8\x8D"), "😍") << "CESU-8";
  EXPECT_EQ(decoded_variants(std::string("a\xC0\x80z")), std::string("a\0z", 3)) << "Java";
  EXPECT_EQ(decoded_variants("\xED\x95\x9C\xEA\xB8\x80"), "한글");
  EXPECT_EQ(decoded_variants("\xED\xA0\xBD"), std::nullopt);
  EXPECT_EQ(decoded_variants("\xC3"), std::nullopt);
}

}  // namespace
}  // namespace kinora::text
