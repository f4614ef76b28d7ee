#include "plugins/jobs/data/verify.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "plugins/jobs/data/data_testing.hpp"
#include "plugins/jobs/data/inspect.hpp"

namespace kinora::data {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Verify : public DataTest {
 protected:
  // Shards that passed, by .nv-meta/kinora.verified.json.
  std::vector<std::string> passed() {
    std::vector<std::string> out;
    const auto record = nlohmann::json::parse(meta("kinora.verified.json"));
    for (const auto& [name, seen] : record["shards"].items()) out.push_back(name);
    return out;
  }
};

TEST_F(Verify, FindsNothingInGoodShards) {
  write("a.tar", shard("a", 1500));
  write("b/c.tar", shard("b", 2));
  index();
  const auto report = verify();
  EXPECT_THAT(lines, IsEmpty());
  EXPECT_EQ(report.samples, 1502u);
  EXPECT_EQ(report.passed, 2u);
  EXPECT_THAT(passed(), ElementsAre("a.tar", "b/c.tar"));
  EXPECT_THAT(report.notes, IsEmpty());
}

// The members of a shard, and the line that it costs.
struct Fault {
  test::TarFiles files;
  std::string line;
};

TEST_F(Verify, NamesThePlaceOfEachFault) {
  const std::vector<Fault> faults = {
      {{{"a.txt", "1"}, {"../b.txt", "1"}}, "s.tar: ../b.txt at 1024: the name leads out of the folder"},
      {{{"a.txt", "1"}, {"/b.txt", "1"}}, "s.tar: /b.txt at 1024: the name leads out of the folder"},
      {{{"a.txt", "1"}, {"b.txt", "1"}, {"a.txt", "1"}}, "s.tar: a at 2048: the key is also in s.tar at 0"},
      {{{"a.txt", "1"}, {"a.txt", "1"}}, "s.tar: a at 0: the field txt comes twice"},
      {{{"a.txt", "1"}, {"a.cls", "1"}, {"b.txt", "1"}},
       "s.tar: b at 2048: no field cls, which other samples have, in 1 of the 2 samples"},
      {{{"a.json", "{\"x\": }"}}, "s.tar: a at 0: the field json is not JSON"},
      {{{"a.facts.json", "[1, 2"}}, "s.tar: a at 0: the field facts.json is not JSON"},
      {{{"a.txt", std::string(9, '\0')}},
       "s.tar: a at 0: a.txt:1: a NUL byte, so it is not text; is it the right file, in UTF-8?; training "
       "leaves"},
      {{{"a.txt", "A boat.\nA\x81"}}, "s.tar: a at 0: a.txt:2: byte 0x81 is neither UTF-8 nor Windows-1252"},
      {{{"a.txt", "1"}, {"a.cls", ""}}, "s.tar: a at 0: the field cls is empty"},
      {{{"a.txt", ""}, {"a.cls", ""}}, "s.tar: a at 0: the sample has 0 bytes"},
      {{{"\x1b[31m\n.txt", "1"}}, "s.tar: \\x1b[31m  at 0: sample key '?[31m?': it has control characters"},
      {{{"./a.txt", "1"}, {"./b//c.txt", "1"}},
       "s.tar: b//c at 1024: sample key 'b//c': a part of it is empty"},
      {{{"a.", "1"}}, "s.tar: a at 0: '' is not a valid field name"},
      {{{"README", "1"}}, "s.tar: no file in it is a field of a sample"},
  };
  for (const auto& fault : faults) {
    write("s.tar", test::tar_bytes(fault.files));
    EXPECT_EQ(verify().problems, 1u);
    ASSERT_EQ(lines.size(), 1u) << fault.line;
    EXPECT_THAT(lines[0], HasSubstr(fault.line));
    EXPECT_THAT(lines[0], HasSubstr("; ")) << "a remedy";
    EXPECT_THAT(passed(), IsEmpty());
  }
}

TEST_F(Verify, FindsEveryPlaceWhereAShardIsCut) {
  const std::string whole = shard("a", 3);
  const size_t end = whole.size() - 1024;
  for (size_t cut = 0; cut < end + 512; cut += 257) {
    write("s.tar", whole.substr(0, cut));
    verify();
    ASSERT_EQ(lines.size(), 1u) << cut;
    EXPECT_THAT(lines[0], HasSubstr("s.tar: "));
  }
  write("s.tar", whole.substr(0, 2 * 2048 + 100));  // nothing says that a1 has no more fields
  verify();
  EXPECT_THAT(lines,
              ElementsAre(HasSubstr(
                  " (1 whole sample before it and 'a1', which may lack fields; the file has 4196 bytes)")));
}

TEST_F(Verify, NamesAHoleAndCountsWhatLiesBehind) {
  std::string bytes = shard("a", 8);
  std::fill_n(bytes.begin() + 2 * 2048, 2 * 2048 + 512, '\0');  // a2, a3 and the header of a4.json
  write("s.tar", bytes);
  for (const bool indexes : {false, true}) {
    if (indexes)
      EXPECT_EQ(index().damaged, 1u);
    else
      EXPECT_EQ(verify().problems, 1u);
    EXPECT_THAT(lines, ElementsAre(AllOf(
                           HasSubstr("s.tar: after 'a0' at 4096: entry 5 is missing: zeros at byte 4096"),
                           HasSubstr("(1 whole sample before it and 'a1', which may lack fields, 4 behind it "
                                     "from byte 9216 on; "))));
  }
  EXPECT_THAT(inspect_folder(find_shards(root), 2).problems, ElementsAre(lines[0]));
  EXPECT_EQ(verify().problems, 1u) << "its index has no others";
}

// The rest of a sample does not count as another one, neither at the first damage nor at a later one.
TEST_F(Verify, CountsASampleWithDamageInItsMiddleOnce) {
  std::string bytes = shard("a", 8);
  for (const size_t i : {2, 5}) bytes.insert(i * 2048 + 1024 + (i == 5 ? 700 : 0), std::string(700, 'g'));
  write("s.tar", bytes);
  EXPECT_EQ(verify().problems, 1u);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("(2 whole samples before it and 'a2', which may lack fields, 5 "
                                           "behind it from byte 6844 on; ")));
}

TEST_F(Verify, AcceptsDeepJsonAndAnyDamageWithoutACrash) {
  write("s.tar", test::tar_bytes({{"a.json", std::string(1 << 20, '[') + std::string(1 << 20, ']')}}));
  EXPECT_EQ(verify().problems, 0u);
  const std::string whole = shard("a", 2);
  for (size_t at = 0; at < whole.size(); at += 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    write("s.tar", damaged);
    verify();
    index();
  }
}

TEST_F(Verify, ReportsAShardThatCannotBeOpenedAndReadsTheOthers) {
  write("b.tar", shard("b", 2));
  fs::create_symlink("nowhere", root / "a.tar");
  EXPECT_EQ(verify().samples, 2u);
  EXPECT_THAT(lines, ElementsAre("a.tar: at 0: cannot be read: no such file or folder; check the path"));
  EXPECT_THAT(passed(), ElementsAre("b.tar"));
  EXPECT_THAT(inspect_folder(find_shards(root), 2).problems, ElementsAre(lines[0]));
  EXPECT_THROW(index(), Error) << "an index without the shard would pass as whole";
}

TEST_F(Verify, LetsOptionalFieldsMiss) {
  write("s.tar", test::tar_bytes({{"a.txt", "1"}, {"a.cls", "1"}, {"b.txt", "1"}}));
  EXPECT_EQ(verify({.threads = 1, .optional = {"cls"}}).problems, 0u);
}

TEST_F(Verify, ComparesTheIndexWithTheShards) {
  write("a.tar", shard("a", 3));
  write("b.tar", shard("b", 3));
  index();
  write("b.tar", shard("x", 4));
  verify();
  EXPECT_THAT(lines, ElementsAre(HasSubstr("b.tar.idx: the offsets are not those of the shard"),
                                 HasSubstr("b.tar: x0 at 0: index.sqlite has another sample"),
                                 HasSubstr("b.tar: .info.json says 3 samples, there are 4")));
  EXPECT_THAT(passed(), ElementsAre("a.tar"));
  index();
  EXPECT_EQ(verify().problems, 0u);
  write("c.tar", shard("c", 1));
  fs::remove(root / "a.tar");
  verify();
  EXPECT_THAT(lines, Contains(HasSubstr("c.tar: not in .nv-meta/.info.json")));
  EXPECT_THAT(lines, Contains(HasSubstr(".nv-meta/.info.json: names a.tar, which is not there")));
  write(".nv-meta/index.sqlite", "not a database");
  verify();
  EXPECT_THAT(lines, Contains(HasSubstr(".nv-meta/index.sqlite: ")));
  write(".nv-meta/.info.json", "{");
  verify();
  EXPECT_THAT(lines, ElementsAre(HasSubstr(".nv-meta/.info.json: not as Energon writes it")));
}

TEST_F(Verify, FindsAShardThatWasReplacedWithTheSameSizeAndTime) {
  write("a.tar", shard("a", 3));
  index();
  const auto time = fs::last_write_time(root / "a.tar");
  write("a.tar", shard("x", 3));
  fs::last_write_time(root / "a.tar", time);
  EXPECT_TRUE(index().is_current) << "index looks at size and time alone";
  verify();
  EXPECT_THAT(lines, ElementsAre("a.tar: x0 at 0: index.sqlite has another sample or other positions; run "
                                 "kinora data index with --again"));
  EXPECT_THAT(passed(), IsEmpty());
  index({.again = true});
  EXPECT_EQ(verify().problems, 0u);
}

TEST_F(Verify, OfDuplicatesAgreesWithTheirIndex) {
  write("a.tar", shard("x", 2));
  write("b.tar", shard("x", 3));
  index();
  EXPECT_EQ(verify().problems, 2u);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("b.tar: x0 at 0: the key is also in a.tar at 0"),
                                 HasSubstr("b.tar: x1 at 2048: the key is also in a.tar at 2048")));
}

TEST_F(Verify, DecodesMediaWithTheGivenDecoder) {
  write("s.tar", test::tar_bytes({{"a.mp4", "good"}, {"b.mp4", "bad"}}));
  const DecodeMedium decode = [](const std::string& key, const std::string& field,
                                 std::vector<uint8_t> bytes) {
    return bytes.size() == 4 ? "" : key + "." + field + " is damaged";
  };
  const auto report = verify({.threads = 1, .decoder = [&] { return decode; }});
  EXPECT_EQ(report.problems, 1u);
  EXPECT_THAT(lines, ElementsAre("s.tar: b at 1024: the field mp4 cannot be decoded: b.mp4 is damaged"));
  EXPECT_THAT(report.notes, Not(Contains(HasSubstr("not decoded"))));
}

// FFmpeg reads no animated WebP, and no training reads such a field. The previews of clip.preview go without saying.
TEST_F(Verify, DecodesTheFieldsThatTrainingDecodesAndNamesTheOthersOnce) {
  write("s.tar", test::tar_bytes({{"a.jpg", "1"},
                                  {"a.preview.webp", "1"},
                                  {"a.thumb.webp", "1"},
                                  {"b.jpg", "1"},
                                  {"b.preview.webp", "1"},
                                  {"b.thumb.webp", "1"}}));
  std::vector<std::string> decoded;
  const DecodeMedium decode = [&](const std::string& key, const std::string& field, std::vector<uint8_t>) {
    decoded.push_back(key + "." + field);
    return "";
  };
  const auto report = verify({.threads = 1, .decoder = [&] { return decode; }});
  EXPECT_THAT(decoded, ElementsAre("a.jpg", "b.jpg"));
  EXPECT_EQ(report.problems, 0u);
  const auto says = HasSubstr("not decoded, since no training decodes them: the fields thumb.webp");
  EXPECT_EQ(std::count_if(report.notes.begin(), report.notes.end(),
                          [&](const auto& note) { return testing::Value(note, says); }),
            1);
  EXPECT_THAT(verify().notes, Not(Contains(says))) << "nothing was decoded, nothing was left out";
}

TEST_F(Verify, TextInAnotherEncodingIsText) {
  const std::string utf16("\xFF\xFE{\0\"\0n\0\"\0:\0\x31\0}\0", 16), windows = "{\"n\": \"caf\xE9\"}";
  write("s.tar",
        test::tar_bytes({{"a.json", utf16}, {"a.txt", utf16}, {"b.json", windows}, {"b.txt", windows}}));
  EXPECT_EQ(verify().problems, 0u) << lines[0];
  const auto all = inspect_folder(find_shards(root), 1);
  EXPECT_THAT(all.problems, IsEmpty());
  EXPECT_EQ(all.facts.at("n").size(), 2u) << "a number and a text";
}

TEST_F(Verify, NamesInCapitalsAreTheSameFields) {
  write("s.tar",
        test::tar_bytes({{"a.MP4", "1"}, {"a.JSON", "{"}, {"b.mp4", "1"}, {"b.json", "{\"x\": NaN}"}}));
  std::vector<std::string> decoded;
  const DecodeMedium decode = [&](const std::string& key, const std::string&, std::vector<uint8_t>) {
    decoded.push_back(key);
    return "";
  };
  const auto report = verify({.threads = 1, .decoder = [&] { return decode; }});
  EXPECT_THAT(decoded, ElementsAre("a", "b"));
  EXPECT_THAT(lines, ElementsAre(HasSubstr("the field JSON is not JSON")))
      << "NaN is null, as trainings read it";
}

TEST_F(Verify, SaysThatThereWasNothingToDecode) {
  write("s.tar", test::tar_bytes({{"a.movie", "1"}, {"a.txt", "1"}}));
  const DecodeMedium decode = [&](const std::string&, const std::string&, std::vector<uint8_t>) {
    return "";
  };
  EXPECT_THAT(verify({.threads = 1, .decoder = [&] { return decode; }}).notes,
              Contains(HasSubstr(
                  "no medium was decoded: no sample has a field such as mp4, webm, jpg or png (the fields "
                  "are movie, txt)")));
  EXPECT_THAT(verify().notes, Not(Contains(HasSubstr("decoded")))) << "it was not asked for";
}

}  // namespace
}  // namespace kinora::data
