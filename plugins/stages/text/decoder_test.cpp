// Decoded ids against the `tokenizers` library and sentencepiece, and texts that come in pieces.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode_stage.hpp"
#include "ids.hpp"
#include "kinora/testing.hpp"
#include "test_fixtures.hpp"
#include "tests/support/refusal.hpp"
#include "unicode.hpp"

namespace kinora::text {
namespace {

using ::testing::HasSubstr;

struct Case {
  Json file, expected;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Decoder> decoder;
  explicit Case(const std::string& name, Json with = {})
      : file(fixture(name)), expected(oracle("decoded")[name]) {
    if (with.is_null()) with = expected.value("decoder", Json());
    if (file.contains("tokenizer")) file["tokenizer"]["decoder"] = std::move(with);
    tokenizer = tokenizer_of(file);
    decoder = tokenizer->decoder();
  }
};

std::string whole(const Decoder& decoder, const Ids& ids, bool skip_special) {
  Unfinished kept;
  return decoder.decode(ids, skip_special, true, kept);
}

// The texts of runs that end before the given positions, joined. Between runs only what a sample can hold is kept.
std::string in_runs(const Decoder& decoder, const Ids& ids, const std::vector<size_t>& ends) {
  std::string out;
  std::optional<std::string> rest;
  for (size_t i = 0, from = 0; i <= ends.size(); ++i) {
    const size_t end = i < ends.size() ? ends[i] : ids.size();
    Unfinished kept;
    if (rest) kept = {true, *rest};
    const auto text = decoder.decode(std::span(ids).subspan(from, end - from), true, i == ends.size(), kept);
    EXPECT_EQ(text, valid_utf8(text));
    if (kept.begun) rest = kept.bytes;
    out += text;
    from = end;
  }
  return out;
}

class DecoderOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(DecoderOracle, GivesTheTextsOfThePublishedLibraries) {
  const Case c(GetParam());
  const Json& f = c.expected;
  ASSERT_GE(f["ids"].size(), 60u);
  for (size_t i = 0; i < f["ids"].size(); ++i) {
    const auto ids = f["ids"][i].get<Ids>();
    EXPECT_EQ(whole(*c.decoder, ids, true), f["texts"][i].get<std::string>()) << i << ": " << f["ids"][i];
    if (f.contains("all")) {
      EXPECT_EQ(whole(*c.decoder, ids, false), f["all"][i].get<std::string>()) << i;
    }
  }
}

TEST_P(DecoderOracle, GivesTheSameTextInAnyRuns) {
  const Case c(GetParam());
  for (const auto& one : c.expected["ids"]) {
    auto ids = one.get<Ids>();
    if (ids.size() > 40) ids.resize(40);
    const std::string text = whole(*c.decoder, ids, true);
    std::vector<size_t> every;
    for (size_t cut = 0; cut <= ids.size(); ++cut) {
      EXPECT_EQ(in_runs(*c.decoder, ids, {cut}), text) << one << " cut at " << cut;
      every.push_back(cut);
    }
    EXPECT_EQ(in_runs(*c.decoder, ids, every), text) << one;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DecoderOracle,
                         ::testing::Values("t5", "first", "nmt", "whole", "gpt2", "roberta", "clip", "llama3",
                                           "llama2", "fused", "unfused", "bert", "cased", "spm.t5",
                                           "spm.user", "spm.fallback", "spm.bpe", "spm.llama", "spm.suffix"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(Decoder, UndoesByteLevelForAnyText) {
  std::mt19937 random(5);
  for (const char* name : {"gpt2", "llama3"}) {
    const Case c(name);
    for (int round = 0; round < 500; ++round) {
      std::string text;
      for (auto n = random() % 30; n > 0; --n) {
        const char32_t limit = std::array<char32_t, 4>{0x80, 0x800, 0x10000, 0x110000}[random() % 4];
        const char32_t code = random() % limit;
        append(text, code >= 0xD800 && code < 0xE000 ? U' ' : code);
      }
      const auto ids = c.tokenizer->pieces(text);
      ASSERT_EQ(whole(*c.decoder, ids, false), text);
      const size_t cut = random() % (ids.size() + 1);
      ASSERT_EQ(in_runs(*c.decoder, ids, {cut}), text);
    }
  }
}

TEST(Decoder, KeepsAnUnfinishedCharacterForTheNextRun) {
  const Case c("llama2");
  const auto byte = [&](const char* piece) { return c.tokenizer->id_of(piece).value(); };
  Unfinished kept;
  EXPECT_EQ(c.decoder->decode(Ids{byte("a"), byte("<0xE4>"), byte("<0xB8>")}, false, false, kept), "a");
  EXPECT_EQ(kept.bytes, "\xE4\xB8");
  EXPECT_EQ(c.decoder->decode(Ids{byte("<0xAD>")}, false, false, kept), "\u4e2d");
  EXPECT_EQ(kept.bytes, "");
  // Bytes that no character has become U+FFFD at once; without its end, a character becomes it at the text's end.
  EXPECT_EQ(
      c.decoder->decode(Ids{byte("<0xE4>"), byte("a"), byte("<0xC0>"), byte("<0xF0>")}, false, false, kept),
      "\uFFFDa\uFFFD");
  EXPECT_EQ(c.decoder->decode(Ids{}, false, true, kept), "\uFFFD");
}

TEST(Decoder, RefusesIdsWithoutAPiece) {
  for (const char* name : {"gpt2", "spm.llama"}) {
    const Case c(name);
    for (const int64_t id : {int64_t{-1}, int64_t{100000}, INT64_MAX, INT64_MIN})
      EXPECT_THAT(test::refusal([&] {
                    whole(*c.decoder, {5, id}, true);
                  }),
                  HasSubstr("no piece has the id " + std::to_string(id) + " (number 1 of the ids)"));
  }
}

TEST(Decoder, RefusesWhatItDoesNotKnowByItsName) {
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 0}, {"stop", 1}},
             fuse = {{"type", "Fuse"}};
  Json deep = fuse;
  for (int i = 0; i < 100; ++i) deep = {{"type", "Sequence"}, {"decoders", {std::move(deep)}}};
  const std::vector<std::pair<Json, const char*>> cases{
      {{{"type", "CTC"}},
       "tokenizer.json: decoder: the decoder 'CTC' is not known; the known decoders are ByteLevel"},
      {{{"type", "Sequence"}, {"decoders", {{{"type", "Rot13"}}}}}, "the decoder 'Rot13' is not known"},
      {{{"type", "Sequence"}, {"decoders", {fuse, strip}}}, "Strip of the whole text is supported for"},
      {{{"type", "Sequence"}, {"decoders", {fuse, {{"type", "ByteFallback"}}}}}, "'ByteFallback' after Fuse"},
      {{{"type", "WordPiece"}, {"future", 1}}, "decoder: 'future' is not known"},
      {{{"type", "Strip"}, {"content", ""}, {"start", 1}, {"stop", 0}}, "'content' is empty"},
      {deep, "sequences are nested too deeply"},
      {Json::array({1}), "expected an object, got array"},
  };
  for (const auto& [decoder, message] : cases)
    EXPECT_THAT(test::refusal([&] { Case("gpt2", decoder); }), HasSubstr(message));
  Json unknown = fixture("gpt2")["tokenizer"];
  unknown["decoder"] = {{"type", "CTC"}};
  EXPECT_FALSE(read_tokenizer_json(unknown.dump(), "t.json")->pieces("a").empty()) << "ids need no decoder";
}

class DecodeStageTest : public ::testing::Test {
 protected:
  DecodeStageTest() {
    kinora::testing::start();
    Json json = fixture("llama2")["tokenizer"];
    json["decoder"] = oracle("decoded")["llama2"]["decoder"];
    auto& added = json["added_tokens"];  // in published files, the bytes are not among them
    added.erase(
        std::remove_if(added.begin(), added.end(),
                       [](const Json& t) { return t["content"].get<std::string>().starts_with("<0x"); }),
        added.end());
    std::ofstream(path_) << json;
    tokenizer_ = read_tokenizer_json(json.dump(), "t.json");
  }
  ~DecodeStageTest() override { std::filesystem::remove(path_); }
  static Sample sample(const Ids& ids) {
    Sample s("a");
    set_ids(s, "input_ids", ids);
    return s;
  }
  Sample run(const Sample& s) {
    kinora::testing::Collector out;
    stage().process(s, out.emit(), kinora::testing::Run());
    return out.emitted.at(0);
  }
  DecodeStage& stage() {
    if (!stage_) stage_ = std::make_unique<DecodeStage>(DecodeStage::Options{.file = path_});
    return *stage_;
  }
  std::string path_ =
      std::filesystem::temp_directory_path() / ("kinora-decode-" + std::to_string(::getpid()) + ".json");
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<DecodeStage> stage_;
};

TEST_F(DecodeStageTest, JoinsPiecesByTheFieldRest) {
  const std::string text = "a \u4eba\u5de5 \U0001F642 b";
  const Ids ids = tokenizer_->encode(text, 100);
  const Sample all = run(sample(ids));
  EXPECT_EQ(all.need("txt"), text);
  EXPECT_FALSE(all.text("rest")) << "only an unfinished text has it";
  std::string joined;
  std::optional<std::string> rest;
  for (size_t i = 0; i < ids.size(); ++i) {
    Sample one = sample({ids[i]});
    one.set("json", i + 1 < ids.size() ? R"({"last": false})" : R"({"last": true})");
    if (rest) one.set("rest", *rest);
    const Sample got = run(one);
    joined += got.need("txt");
    rest.reset();
    if (const auto kept = got.text("rest")) rest = std::string(*kept);
  }
  EXPECT_EQ(joined, text);
  EXPECT_FALSE(rest);
}

TEST_F(DecodeStageTest, KeepsSpecialTokensWhereTheyAreWanted) {
  Ids ids = tokenizer_->encode("a", 100);
  ids.push_back(2);
  const Sample s = sample(ids);
  EXPECT_EQ(run(s).need("txt"), "a");
  stage_ = std::make_unique<DecodeStage>(DecodeStage::Options{.file = path_, .skip_special = false});
  EXPECT_EQ(run(s).need("txt"), "<s> a</s>");
}

TEST_F(DecodeStageTest, FailsASampleWithOtherTensors) {
  EXPECT_THAT(test::refusal([&] { run(Sample("a")); }), HasSubstr("sample 'a' has no tensor 'input_ids'"));
  EXPECT_THAT(test::refusal([&] { run(sample({1 << 20})); }), HasSubstr("no piece has the id 1048576"));
  Sample floats("a"), rows = sample({});
  floats.set_tensor("input_ids", std::vector<uint8_t>(8), {1}, KINORA_DL_FLOAT, 64);
  set_ids(rows, "input_ids", {3, 4}, 2);
  for (const Sample& s : {floats, rows})
    EXPECT_THAT(test::refusal([&] { run(s); }), HasSubstr("tensor 'input_ids' must be int64 [L]"));
  EXPECT_EQ(run(sample({})).need("txt"), "");
}

}  // namespace
}  // namespace kinora::text
