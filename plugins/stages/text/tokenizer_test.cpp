// Tokenizers against the `tokenizers` library and sentencepiece, and errors for malformed files.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clean.hpp"
#include "kinora/testing.hpp"
#include "open_tokenizer.hpp"
#include "test_fixtures.hpp"
#include "tests/support/refusal.hpp"
#include "tokenizer_stages.hpp"

namespace kinora::text {
namespace {

using ::testing::HasSubstr;

class TokenizerOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerOracle, GivesTheIdsOfThePublishedLibraries) {
  const auto texts = fixture("texts")["texts"].get<std::vector<std::string>>();
  const Json f = fixture(GetParam());
  const auto tokenizer = tokenizer_of(f);
  ASSERT_GE(texts.size(), 200u);
  ASSERT_EQ(f["ids"].size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer->encode(texts[i], 1 << 20), f["ids"][i].get<Ids>())
        << i << ": " << Json(texts[i]).dump();
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerOracle,
                         ::testing::Values("t5", "first", "whole", "gpt2", "roberta", "clip", "llama3",
                                           "llama2", "fused", "unfused", "bert", "cased", "nmt", "spm.t5",
                                           "spm.user", "spm.fallback", "spm.bpe", "spm.llama", "spm.suffix"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(Clean, ResolvesReferencesTwiceAndCollapsesWhiteSpaceAsPythonDoes) {
  const Json f = fixture("texts");
  for (size_t i = 0; i < f["raw"].size(); ++i)
    EXPECT_EQ(collapsed(unescaped(unescaped(f["raw"][i].get<std::string>()))),
              f["clean"][i].get<std::string>())
        << f["raw"][i];
}

std::string refusal_of(const Json& json) {
  return test::refusal([&] { read_tokenizer_json(json.dump(), "/x/tokenizer.json"); });
}

TEST(TokenizerJson, RefusesWhatItDoesNotKnowByItsName) {
  Json good = fixture("clip")["tokenizer"];
  struct Case {
    const char *at, *value, *message;
  };
  const Case cases[] = {
      {"/normalizer", R"({"type": "Rot13"})",
       "/x/tokenizer.json: normalizer: the normalizer 'Rot13' is not known"},
      {"/normalizer", R"({"type": "NFC", "twice": true})", "normalizer: 'twice' is not known"},
      {"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})", "the charsmap declares"},
      {"/normalizer", R"({"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""})",
       "the pattern '(a' is not valid"},
      {"/normalizer", R"([])", "normalizer: expected an object, got array"},
      {"/pre_tokenizer", R"({"type": "UnicodeScripts"})", "the pre-tokenizer 'UnicodeScripts' is not known"},
      {"/pre_tokenizer/pretokenizers/0/behavior", R"("Shuffled")", "the behavior 'Shuffled' is not known"},
      {"/pre_tokenizer/pretokenizers", R"({"a": {"type": 3}})", "'type' is of the wrong type, number"},
      {"/post_processor", R"({"type": "Rot13"})", "the post-processor 'Rot13' is not known"},
      {"/post_processor/cls", R"(["a"])", "'cls' is not [\"token\", id]"},
      {"/model/type", R"("WordLevel")",
       "model: the model 'WordLevel' is not known; the known models are BPE, Unigram and WordPiece"},
      {"/model/dropout", "0.1", "model: 'dropout' is not supported"},
      {"/model/unk_token", R"("nowhere")", "the unk_token 'nowhere' is not in 'vocab'"},
      {"/model/merges/0", R"(["zz", "yy"])", "the merge 'zz yy' has pieces that are not in 'vocab'"},
      {"/model/merges/0", R"("zz")", "a merge must be"},
      {"/model/vocab/a", "-3", "the id of 'a' must be a number from 0 on"},
      {"/model/vocab", "[1, 2]", "'vocab' is not an object"},
      {"/added_tokens/0/id", R"("3")", "added_tokens: 'id' is of the wrong type, string"},
      {"/future", "1", "/x/tokenizer.json: 'future' is not known"},
  };
  for (const auto& c : cases) {
    Json bad = good;
    bad[Json::json_pointer(c.at)] = Json::parse(c.value);
    EXPECT_THAT(refusal_of(bad), HasSubstr(c.message)) << c.at;
  }
  EXPECT_THAT(test::refusal([] { read_tokenizer_json(std::string_view("{\"a\": "), "t.json"); }),
              HasSubstr("t.json: not valid JSON"));
}

TEST(TokenizerJson, BoundsHowDeepSequencesNest) {
  Json deep = {{"type", "NFC"}};
  for (int i = 0; i < 2000; ++i) deep = {{"type", "Sequence"}, {"normalizers", {std::move(deep)}}};
  Json json = fixture("clip")["tokenizer"];
  json["normalizer"] = std::move(deep);
  EXPECT_THAT(refusal_of(json), HasSubstr("sequences are nested too deeply"));
}

// Copying such a value would overflow the stack.
TEST(TokenizerJson, RefusesAnyMemberThatIsNestedTooDeeply) {
  const Json good = fixture("clip")["tokenizer"];
  const std::string deep = std::string(200000, '[') + std::string(200000, ']'), mark = "\"DEEP\"";
  for (const char* at : {"/normalizer", "/post_processor", "/pre_tokenizer", "/added_tokens",
                         "/added_tokens/0", "/model", "/model/vocab", "/model/merges", "/future"}) {
    Json bad = good;
    bad[Json::json_pointer(at)] = "DEEP";
    std::string text = bad.dump();
    text.replace(text.find(mark), mark.size(), deep);
    EXPECT_NE(test::refusal([&] { read_tokenizer_json(std::string_view(text), "t.json"); }),
              "nothing was refused")
        << at;
  }
}

TEST(SentencePieceModel, RefusesWhatIsDamaged) {
  const std::string model = bytes_of(fixture("spm.t5")["model"]);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, model.size() - 1})
    EXPECT_THAT(
        test::refusal([&] { read_sentencepiece(std::string_view(model).substr(0, size), "x.model", {}); }),
        HasSubstr("x.model: "))
        << size;
  EXPECT_THAT(test::refusal([&] { read_sentencepiece(model, "x.model", {.begin = true}); }),
              HasSubstr("x.model: the vocabulary has no piece '<s>'"));
}

struct Files {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kinora-text-" + std::to_string(::getpid()));
  Files() {
    std::filesystem::create_directories(folder);
    std::ofstream(json()) << fixture("t5")["tokenizer"];
    std::ofstream(model(), std::ios::binary) << bytes_of(fixture("spm.t5")["model"]);
  }
  ~Files() { std::filesystem::remove_all(folder); }
  std::string json() const { return folder / "tokenizer.json"; }
  std::string model() const { return folder / "spiece.model"; }
};

std::pair<Ids, Ids> run(const TokenizerStage::Options& options, const std::string& text) {
  TokenizerStage stage(options);
  kinora::testing::Collector out;
  Sample s("a");
  s.set("txt", text);
  stage.process(s, out.emit(), kinora::testing::Run());
  return {tensor(out.emitted.at(0), "input_ids"), tensor(out.emitted.at(0), "attention_mask")};
}

TEST(TokenizerStage, CutsFillsAndCleans) {
  kinora::testing::start();
  const Files files;
  const auto [all, ones] = run({.file = files.json()}, "A red ball &amp;amp; a tram");
  ASSERT_GT(all.size(), 6u);
  EXPECT_EQ(ones, Ids(all.size(), 1));
  EXPECT_EQ(run({.file = files.json(), .clean = true}, "A red  ball &amp;amp; a tram ").first,
            run({.file = files.json()}, "A red ball & a tram").first);

  const auto [cut, some] = run({.file = files.json(), .max_length = 4}, "A red ball");
  EXPECT_EQ(cut.size(), 4u);
  EXPECT_EQ(cut.back(), all.back()) << "the closing special token is kept";
  EXPECT_EQ(cut[2], all[2]);

  const auto [filled, mask] =
      run({.file = files.json(), .max_length = 40, .pad = "max_length"}, "A red ball");
  EXPECT_EQ(filled.size(), 40u);
  EXPECT_EQ(filled.back(), 0);  // "<pad>"
  EXPECT_EQ(std::count(mask.begin(), mask.end(), 1),
            std::count_if(filled.begin(), filled.end(), [](int64_t i) { return i != 0; }));
  EXPECT_EQ(run({.file = files.json(), .max_length = 40, .pad = "max_length", .pad_id = 7}, "a").first.back(),
            7);
}

TEST(TokenizerStage, ReadsAModelAndSaysWhereOptionsDoNotFit) {
  kinora::testing::start();
  const Files files;
  const auto bare = run({.file = files.model()}, "A red ball").first,
             ended = run({.file = files.model(), .add_end = true}, "A red ball").first;
  Ids wanted = bare;
  wanted.push_back(1);  // "</s>"
  EXPECT_EQ(ended, wanted);
  const std::string llama = files.folder / "llama.model", bytes = bytes_of(fixture("spm.llama")["model"]);
  std::ofstream(llama, std::ios::binary) << bytes;
  wanted = run({.file = llama}, "A red ball").first;
  wanted.insert(wanted.begin(), read_sentencepiece(bytes, "x.model", {})->id_of("<s>").value());
  EXPECT_EQ(run({.file = llama, .add_begin = true}, "A red ball").first, wanted);
  EXPECT_THAT(test::refusal([&] { run({.file = files.json(), .add_end = true}, ""); }),
              HasSubstr("add_begin and add_end are for a .model"));
  EXPECT_THAT(test::refusal([&] { run({.file = files.folder / "none.json"}, ""); }), HasSubstr("none.json"));
}

// Folders that several versions of save_pretrained wrote.
TEST(TokenizerStage, ReadsAFolderAsItsFile) {
  kinora::testing::start();
  const Files files;
  const auto folder = [&](const char* name, const std::map<std::string, std::string>& of) {
    const auto made = std::filesystem::path(files.folder) / name;
    std::filesystem::create_directories(made);
    for (const auto& [to, text] : of) std::ofstream(made / to) << text;
    return made.string();
  };
  const std::string text = "A red ball";
  const auto said = [&](const std::string& file) { return run({.file = file}, text).first; };
  const std::string fast =
                        folder("fast", {{"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer"})"}}),
                    slow =
                        folder("slow", {{"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer"})"}}),
                    other = folder("other",
                                   {{"tokenizer_config.json", R"({"tokenizer_class": "XLNetTokenizer"})"}});
  std::filesystem::copy_file(std::string(files.json()), fast + "/tokenizer.json");
  for (const auto& to : {fast, slow, other})
    std::filesystem::copy_file(std::string(files.model()), to + "/spiece.model");
  EXPECT_EQ(said(fast), said(files.json()));
  EXPECT_EQ(said(slow), run({.file = files.model(), .add_end = true}, text).first);
  EXPECT_THAT(test::refusal([&] { said(other); }),
              HasSubstr("\"XLNetTokenizer\" are not known here; name spiece.model"));
  const std::map<std::string, std::string> words{{"vocab.txt", "[UNK]\n[CLS]\n[SEP]\nA\na\nred\nball\n"}};
  EXPECT_EQ(said(folder("uncased", words)), (Ids{1, 4, 5, 6, 2}));
  auto cased = words;
  cased["tokenizer_config.json"] = R"({"do_lower_case": false})";
  EXPECT_EQ(said(folder("cased", cased)), (Ids{1, 3, 5, 6, 2}));
  EXPECT_THAT(test::refusal([&] { said(folder("empty", {})); }),
              HasSubstr("no tokenizer.json, spiece.model, vocab.txt or vocab.json with merges.txt"));
}

// A folder of CLIP's tokenizer with the vocabulary and merges of fixture "clip", and the given other files.
struct ClipFolder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("kinora-clip-" + std::to_string(::getpid()));
  Json model = fixture("clip")["tokenizer"]["model"];
  ClipFolder() {
    std::filesystem::create_directories(path);
    std::string merges = "#version: 0.2\n";
    for (const auto& m : model["merges"])
      merges += m[0].get<std::string>() + " " + m[1].get<std::string>() + "\n";
    write("vocab.json", model["vocab"].dump());
    write("merges.txt", merges);
  }
  ~ClipFolder() { std::filesystem::remove_all(path); }
  void write(const char* name, const std::string& text) const { std::ofstream(path / name) << text; }
  std::string refusal(const char* name, const std::string& text) const {
    write(name, text);
    auto why = test::refusal([&] { run({.file = path}, "a"); });
    std::filesystem::remove(path / name);
    return why;
  }
};

TEST(ClipWords, AreThoseOfTransformers) {
  kinora::testing::start();
  const ClipFolder folder;
  const auto expect = [&](const Json& texts, const Json& ids) {
    ASSERT_EQ(texts.size(), ids.size());
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(run({.file = folder.path, .max_length = 1 << 20}, texts[i]).first, ids[i].get<Ids>())
          << texts[i];
  };
  expect(fixture("texts")["texts"], fixture("clip")["ids"]);
  const Json f = fixture("clip_words");
  folder.write("tokenizer_config.json", f["tokenizer_config"].dump());
  ASSERT_GE(f["texts"].size(), 60u);
  expect(f["texts"], f["ids"]);
  EXPECT_EQ(run({.file = folder.path, .max_length = 9, .pad = "max_length"}, "a").first.back(), f["pad_id"]);
  // The same settings in the other file.
  std::filesystem::remove(folder.path / "tokenizer_config.json");
  folder.write("special_tokens_map.json", f["tokenizer_config"].dump());
  expect(f["texts"], f["ids"]);
}

TEST(ClipWords, AreDecodedWithABlankBehindEach) {
  kinora::testing::start();
  const ClipFolder folder;
  const auto tokenizer = open_tokenizer(folder.path, {});
  Unfinished kept;
  EXPECT_EQ(tokenizer->decoder()->decode(tokenizer->encode("A red\tcaf\u00e9", 100), true, true, kept),
            "a red caf\u00e9 ");
}

TEST(ClipWords, AreNoOtherTokenizers) {
  kinora::testing::start();
  const ClipFolder folder;
  EXPECT_THAT(folder.refusal("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})"),
              HasSubstr("how \"GPT2Tokenizer\" reads vocab.json and merges.txt is not known here"));
  EXPECT_THAT(folder.refusal("tokenizer_config.json", R"({"pad_token": "<pad>"})"),
              HasSubstr("the pad_token \"<pad>\" is not in vocab.json"));
  EXPECT_THAT(folder.refusal("added_tokens.json", R"({"<cat>": 620})"), HasSubstr("added_tokens.json"));
  EXPECT_THAT(folder.refusal("vocab.json", "[]"), HasSubstr("vocab.json: not a JSON object"));
}

}  // namespace
}  // namespace kinora::text
