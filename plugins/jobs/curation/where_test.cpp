#include "plugins/jobs/curation/where.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/kept_clips.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Where, SaysWhichConditionRemoves) {
  const Where where("blur >= 20 and (width == 640 or has(user.keep))");
  EXPECT_THAT(where.rules(), ElementsAre("blur >= 20", "(width == 640 or has(user.keep))"));
  EXPECT_THAT(where.facts(), ElementsAre("blur", "width"));
  EXPECT_EQ(where.removed_by({{"scores", {{"filter.blur", 19}}}, {"width", 640}}, "k"), 0u);
  EXPECT_EQ(where.removed_by({{"scores", {{"filter.blur", 20}}}, {"width", 641}}, "k"), 1u);
  EXPECT_EQ(where.removed_by({{"scores", {{"filter.blur", 20}}}, {"width", 640}}, "k"), std::nullopt);
  EXPECT_EQ(Where("").removed_by(json(), "k"), std::nullopt);
  EXPECT_EQ(Where("key in ['" + std::string(90, 'x') + "äöü more']").rules()[0].size(), 102u);
  EXPECT_THAT(refusal([] { Where("blur > "); }), HasSubstr("where: column 8: expected a number"));
}

TEST(Where, ReadsTheFactsThatItNames) {
  EXPECT_TRUE(Where("blur >= 20 and tags contains 'sea'").reads("tags"));
  EXPECT_TRUE(Where("not has(tags)").reads("tags"));
  for (const char* text :
       {"", "film == 'tags'", "caption contains 'price tags'", "user.tags == 1", "has(hashtags)"})
    EXPECT_FALSE(Where(text).reads("tags")) << text;
}

TEST(FactsSeen, NamesTheNearestOfAFactThatNoClipHas) {
  const json with = {{"scores", {{"filter.blur", 1}}}, {"width", 1}}, without = {{"width", 2}};
  FactsSeen seen("where", {"blur", "width"}), part = seen, misspelt("per", {"widht"});
  seen.require();  // no clip was seen
  seen.add(without);
  EXPECT_THAT(refusal([&] { seen.require(); }), HasSubstr("where: no clip has the fact 'blur'"));
  part.add(with);
  seen.add(part);
  seen.require();
  misspelt.add(with);
  EXPECT_EQ(refusal([&] { misspelt.require(); }), "per: no clip has the fact 'widht', did you mean 'width'?");
}

TEST(FactsSeen, NamesAComparisonThatTheTypeOfNoClipSatisfies) {
  const std::vector<json> clips{{{"bin", {{"aspect", "16_9"}, {"2nd", 1}}},
                                 {"blur", 21.5},
                                 {"tags", {"sea"}},
                                 {"mark", 1},
                                 {"quality", "high"}},
                                {{"blur", nullptr}, {"mark", "one"}}};
  const auto found = [&](const std::string& condition) {
    const Where where(condition);
    FactsSeen seen(where), part = seen;
    seen.add(clips[0]);
    part.add(clips[1]);
    seen.add(part);
    return refusal([&] { seen.require(); });
  };
  EXPECT_EQ(found("bin == '720'"),
            "where: column 1: bin is an object, so it is never compared with '720'; its members are "
            "bin.2nd, bin.aspect");
  EXPECT_EQ(found("blur > '20'"),
            "where: column 1: blur is a number, such as 21.5, so it is never compared with '20'; write a "
            "number without quotes");
  EXPECT_EQ(
      found("mark == 1 and not tags == 'sea'"),
      "where: column 19: tags is a list, so it is never compared with 'sea'; write tags contains 'sea'");
  EXPECT_EQ(found("quality in [1, 2]"),
            "where: column 1: quality is a text, such as 'high', so it never equals one of the values; write "
            "the value in quotes");
  for (const char* sound : {"blur > 20", "mark == 1", "mark == 'one'", "tags contains 'sky'",
                            "quality contains 'x'", "not has(bin) or bin.aspect == '1_1'"})
    EXPECT_EQ(found(sound), "nothing was refused") << sound;
}

TEST(FactsSeen, WritesNamesAsAConditionWould) {
  const json odd = {{"user", {{"2nd", 1}, {"quality score", 1}}}};
  for (const auto& [option, near, listed] :
       {std::tuple{"where", "did you mean '`quality score`'?", "; facts: `2nd`, `quality score`"},
        {"per", "did you mean 'quality score'?", "; facts: 2nd, quality score"}}) {
    FactsSeen misspelt(option, {"quality_score"}), other(option, {"licence"});
    misspelt.add(odd);
    EXPECT_THAT(refusal([&] { misspelt.require(); }), testing::EndsWith(near));
    other.add(odd);
    EXPECT_THAT(refusal([&] { other.require(); }), testing::EndsWith(listed));
  }
}

class KeptClips : public testing::Test {
 protected:
  KeptClips() : folder_(fs::path(testing::TempDir()) / ("kept-clips-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~KeptClips() override { fs::remove_all(folder_); }
  fs::path put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  fs::path folder_;
};

TEST_F(KeptClips, EachLineIsInOnePartWhereverPartsBegin) {
  const fs::path file = put("lines", "\nab\n\n\nc\ndefgh\nlast");
  const std::vector<std::string> all{"", "ab", "", "", "c", "defgh", "last"};
  const uint64_t size = fs::file_size(file);
  for (uint64_t part = 1; part <= size + 1; ++part) {
    std::vector<std::string> found;
    for (uint64_t from = 0; from < size; from += part)
      each_line_in(file, from, from + part, [&](const std::string& line) { found.push_back(line); });
    EXPECT_EQ(found, all) << part;
  }
}

TEST_F(KeptClips, AreTheStoredOnesInTheOrderOfTheFile) {
  std::string text = R"({"consumed":true,"end":"kept","key":"film"})"
                     "\n";
  std::vector<std::string> keys;
  const std::string filling(1000, 'x');
  for (int i = 0; i < 10'000; ++i) {  // two parts and a half
    keys.push_back("clip-" + std::to_string(i));
    text += json{{"end", "kept"}, {"key", keys.back()}, {"filling", filling}}.dump() + "\n";
    text += json{{"end", "filtered"}, {"key", "gone-" + std::to_string(i)}}.dump() + "\n";
  }
  put("items.jsonl", text);
  using Keys = std::vector<std::string>;
  const auto read = [&] {
    Keys found;
    each_kept_clip<Keys>(
        folder_, 3, [](const json& line, Keys& of) { of.push_back(line.at("key")); },
        [&](const Keys& of) { found.insert(found.end(), of.begin(), of.end()); });
    return found;
  };
  EXPECT_EQ(read(), keys);
  put("items.jsonl", text + "{\"key\": \"cut o");
  EXPECT_THAT(refusal(read), HasSubstr("run the curate job again"));
  fs::remove(folder_ / "items.jsonl");
  EXPECT_THAT(refusal(read), HasSubstr("file not found"));
}

TEST_F(KeptClips, AFinalDropStaysWhateverPeopleDecided) {
  auto drops = drops_in(put("decisions.jsonl",
                            "{\"key\": \"a\", \"end\": \"filtered\", \"rule\": \"x > 1\", \"final\": true}\n"
                            "{\"key\": \"b\", \"end\": \"filtered\", \"rule\": \"dedup.exact\"}\n"));
  EditHistory edits;
  for (const char* key : {"a", "b"}) {
    Edit edit;
    edit.key = key;
    edit.set.keep = true;
    edits.add(edit);
  }
  apply_edits(edits, drops);
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops.at("a").rule, "x > 1");
}

}  // namespace
}  // namespace kinora::core
