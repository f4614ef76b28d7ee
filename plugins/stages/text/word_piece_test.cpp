#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kinora/testing.hpp"
#include "older_files.hpp"
#include "tokenizer_json.hpp"
#include "tokenizer_stages.hpp"

namespace kinora::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

nlohmann::json word_pieces() {
  std::ifstream in(std::string(KINORA_TEST_DATA) + "/oracle/wordpiece.json");
  EXPECT_TRUE(in);
  return nlohmann::json::parse(in);
}

std::string vocabulary(const nlohmann::json& pieces) {
  std::string out;
  for (const auto& piece : pieces) out += piece.get<std::string>() + "\n";
  return out;
}

TEST(WordPieceOracle, GivesTheIdsOfThePublishedTokenizer) {
  const auto f = word_pieces();
  const auto pieces = read_vocab_txt(vocabulary(f["vocab"]), "wordpiece.json");
  ASSERT_GE(f["cases"].size(), 60u);
  for (const auto& c : f["cases"])
    EXPECT_EQ(pieces->encode(c["text"].get<std::string>(), f["max_length"]),
              c["ids"].get<std::vector<int64_t>>())
        << c["text"];
}

const char* const kSmall = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##happi\n##ly\nhappy\n,\n";

TEST(WordPiece, MatchesTheLongestFromTheLeft) {
  const auto pieces = read_vocab_txt(kSmall, "v");
  EXPECT_THAT(pieces->encode("Unhappily, happy unhappi unhappiest", 128),
              ElementsAre(2, 4, 5, 6, 8, 7, 4, 5, 1, 3));
}

TEST(WordPiece, JoinsThePiecesOfAWord) {
  const auto pieces = read_vocab_txt(kSmall, "v");
  Unfinished kept;
  EXPECT_EQ(pieces->decoder()->decode(pieces->encode("Unhappily, happy", 128), true, true, kept),
            "unhappily, happy");
}

TEST(WordPiece, LeavesOutTheEndOfWhatIsTooLong) {
  const auto pieces = read_vocab_txt(kSmall, "v");
  EXPECT_THAT(pieces->encode("unhappily", 4), ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(pieces->encode("happy [SEP] happy happy", 4), ElementsAre(2, 7, 3, 3));
  EXPECT_THAT(pieces->encode("happy", 2), ElementsAre(2, 3));
  EXPECT_EQ(pieces->encode(std::string(1 << 20, ','), 128).size(), 128u);
}

TEST(WordPiece, ReadsWindowsLinesAndNamesAWrongFile) {
  EXPECT_THAT(read_vocab_txt("[UNK]\r\n[CLS]\r\n[SEP]\r\nhappy", "v")->encode("happy", 9),
              ElementsAre(1, 3, 2));
  try {
    read_vocab_txt("a\nb\n", "/x/notes.txt");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "/x/notes.txt: none of its 2 lines is [UNK]; give the vocab.txt of a BERT tokenizer");
  }
}

TEST(BertNormalizer, LeavesOutBytesThatAreNotUtf8) {
  EXPECT_EQ(bert_normalised("a\xff\xc3(\xe2\x82 b\xed\xa0\x80\xf4\x90\x80\x80z", {}), "a( bz");
}

TEST(BertNormalizer, SurvivesAnyBytes) {
  std::mt19937 random(3);
  const auto pieces = read_vocab_txt(kSmall, "v");
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random() % 200, 0);
    for (auto& b : bytes)
      b = static_cast<char>(random() % 3 ? random() : "[SEP]\xcc\x81\xe4\xb8"[random() % 9]);
    const auto ids = pieces->encode(bytes, 32);
    ASSERT_LE(ids.size(), 32u);
    ASSERT_EQ(ids.front(), 2);
    ASSERT_EQ(ids.back(), 3);
  }
}

TEST(WordPieceStage, SetsIdsAndMaskBesideTheCaption) {
  kinora::testing::start();
  const auto path = std::filesystem::temp_directory_path() / ("kinora-vocab-" + std::to_string(::getpid()));
  std::ofstream(path) << kSmall;
  WordPieceStage stage({.vocab = path.string(), .max_length = 16});
  std::filesystem::remove(path);
  kinora::testing::Collector out;
  const kinora::testing::Run run;
  Sample s("a");
  s.set("txt", "unhappily");
  stage.process(s, out.emit(), run);
  ASSERT_EQ(out.emitted.size(), 1u);
  for (const char* name : {"input_ids", "attention_mask"}) {
    const kinora_dl_tensor* t = out.emitted[0].tensor(name);
    ASSERT_NE(t, nullptr);
    EXPECT_EQ(t->ndim, 1);
    EXPECT_EQ(t->code, KINORA_DL_INT);
    EXPECT_EQ(t->bits, 64);
    const auto* at = static_cast<const int64_t*>(t->data);
    const std::vector<int64_t> values(at, at + t->shape[0]);
    EXPECT_EQ(values, std::string(name) == "input_ids" ? (std::vector<int64_t>{2, 4, 5, 6, 3})
                                                       : std::vector<int64_t>(5, 1));
  }
  try {
    stage.process(Sample("b"), out.emit(), run);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("sample 'b' has no field 'txt'"));
  }
}

}  // namespace
}  // namespace kinora::text
