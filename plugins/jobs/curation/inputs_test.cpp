// Tests what a curate job reads: patterns, lists, manifests, and the keys of all inputs.
#include "plugins/jobs/curation/inputs.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/wildcard.hpp"
#include "core/runtime/runtime.hpp"
#include "plugins/jobs/curation/input_rows_testing.hpp"
#include "plugins/jobs/curation/manifest.hpp"
#include "plugins/jobs/listing/csv_table.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Wildcard, MatchesAsTheShellDoes) {
  struct Case {
    const char *pattern, *path;
    bool matches;
  };
  for (const auto& c : std::vector<Case>{{"*.mp4", "a.mp4", true},
                                         {"*.mp4", "x/a.mp4", false},
                                         {"*.mp4", ".a.mp4", false},
                                         {"**/*.mp4", "a.mp4", true},
                                         {"**/*.mp4", "x/y/z/a.mp4", true},
                                         {"**/*.mp4", "x/.y/a.mp4", false},
                                         {"x/**/a?.mkv", "x/a1.mkv", true},
                                         {"x/**/a?.mkv", "x/b/c/a1.mkv", true},
                                         {"x/**/a?.mkv", "y/a1.mkv", false},
                                         {"**", "x/y", true},
                                         {"[ab].mp4", "b.mp4", true},
                                         {"[ab].mp4", "c.mp4", false},
                                         {"**/x/**/y", "x/x/x/y", true},
                                         {"a/b", "a//b", false},
                                         {"", "a", false}})
    EXPECT_EQ(matches(c.pattern, c.path), c.matches) << c.pattern << " " << c.path;
}

// Backtracking would take longer than the age of the universe.
TEST(Wildcard, OfManyStarsEndsSoon) {
  std::string pattern, path;
  for (int i = 0; i < 60; ++i) pattern += "**/a/", path += "a/a/";
  EXPECT_FALSE(matches(pattern + "b", path + "c"));
}

// JSON writers recurse once per level: such a line would overflow the stack.
TEST(Manifest, ALineThatIsNestedWithoutEndIsNoInput) {
  const auto error_of = [](const std::string& user) {
    std::string error = "no row";
    read_jsonl_manifest("{\"url\": \"a.mp4\", \"x\": " + user + "}", "videos.jsonl",
                        [&](Input in) { error = in.error; });
    return error;
  };
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_EQ(error_of(nested(60)), "");
  EXPECT_EQ(error_of("\"" + nested(400) + "\\\"" + nested(400) + "\""), "") << "brackets in text are text";
  EXPECT_THAT(error_of(nested(1000000)), HasSubstr("videos.jsonl: line 1: it is nested more than 64"));
}

TEST(Manifest, NanIsNullAndOtherFlawsAreNamedWithTheirPlace) {
  const auto row_of = [](const std::string& line) {
    Input out;
    read_jsonl_manifest(line, "videos.jsonl", [&](Input in) { out = std::move(in); });
    return out;
  };
  const Input nan =
      row_of(R"({"url": "a.mp4", "score": NaN, "x": [-Infinity, Infinity], "caption": "NaN of \"NaN"})");
  EXPECT_EQ(nan.error, "");
  EXPECT_EQ(nan.user, (json{{"score", nullptr}, {"x", {nullptr, nullptr}}}));
  EXPECT_EQ(nan.caption, "NaN of \"NaN");
  EXPECT_EQ(row_of(R"({"url": "a.mp4", "caption": NaN})").caption, std::nullopt);
  for (const auto& [line, words] : {std::pair{R"({"url": 'a.mp4'})", "character 9 is \"'\""},
                                    {R"({"url": "a.mp4", "x": nan})", "character 24 is \"a\""},
                                    {R"({"url": "a.mp4",)", "it ends too early"},
                                    {R"(["a.mp4"])", "but a JSON array"},
                                    {"a.mp4", "character 1 is \"a\""}})
    EXPECT_THAT(row_of(line).error, HasSubstr(words)) << line;
}

// A record that cannot be read is {"broken", its number}.
std::vector<std::vector<std::string>> rows(const std::string& text) {
  std::vector<std::vector<std::string>> out;
  read_csv(
      text, [&](size_t, std::vector<std::string> fields) { out.push_back(std::move(fields)); },
      [&](size_t number, const std::string&) {
        out.push_back({"broken", std::to_string(number)});
      });
  return out;
}

TEST(Csv, IsReadAsRfc4180SaysAndComesBackAsItWasWritten) {
  EXPECT_THAT(rows("a,\"b \"\"c\"\"\",\" d\n,e\"\r\n,,\n"),
              ElementsAre(ElementsAre("a", "b \"c\"", " d\n,e"), ElementsAre("", "", "")));
  EXPECT_THAT(rows("\xEF\xBB\xBFurl, x \n"), ElementsAre(ElementsAre("url", " x ")));
  const std::vector<std::string> odd{"", "\"", ",", "a\r\nb", " x ", "\xC3\xA4"};
  EXPECT_THAT(rows(csv_line(odd) + csv_line({"z"})), ElementsAre(odd, ElementsAre("z")));
  EXPECT_THAT(rows("x,\"a\n\nb\"\n\n\ny"), ElementsAre(ElementsAre("x", "a\n\nb"), ElementsAre("y")));
}

TEST(Csv, GoesOnAfterARecordThatCannotBeRead) {
  EXPECT_THAT(rows("x,y\na,\"b\"c\n1,2\n"),
              ElementsAre(ElementsAre("x", "y"), ElementsAre("broken", "2"), ElementsAre("1", "2")));
  EXPECT_THAT(rows("x\na\"b\r\n\"1\r\n2\"\r\n"),
              ElementsAre(ElementsAre("x"), ElementsAre("broken", "2"), ElementsAre("1\r\n2")));
  // Never closed: only its own line is lost, wherever the record began.
  EXPECT_THAT(rows("x\n\"a\n1\n\n2\n"),
              ElementsAre(ElementsAre("x"), ElementsAre("broken", "2"), ElementsAre("1"), ElementsAre("2")));
  EXPECT_THAT(rows("x\n1,\"a"), ElementsAre(ElementsAre("x"), ElementsAre("broken", "2")));
}

class Inputs : public testing::Test {
 protected:
  Inputs() : folder_(fs::path(testing::TempDir()) / ("inputs-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    runtime_ = or_throw(Runtime::start({.plugin_dirs = {}, .log_level = "error"}));
  }
  ~Inputs() override { fs::remove_all(folder_); }
  std::string put(const std::string& name, const std::string& text = "x") {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::vector<Input> find(const std::vector<std::string>& paths, Look look = {}) {
    return all_of(*find_inputs(runtime_->io(), paths, look));
  }
  static std::vector<std::string> keys(const std::vector<Input>& inputs) {
    RowsOf all(inputs);
    name_inputs(all.rows);
    std::vector<std::string> out;
    for (const auto& input : all_of(all.rows)) out.push_back(input.key);
    return out;
  }
  fs::path folder_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(Inputs, OfAFolderAreItsFilesAndOfOneBelowOnlyWhereAsked) {
  put("b.mp4"), put("a.mkv"), put(".hidden.mp4"), put("sub/c.mp4"), put("sub/deep/d.mp4"), put(".git/e.mp4");
  for (const char* circle : {"sub/up", "sub/deep/up", "sub/deep/top"})
    fs::create_directory_symlink(folder_, folder_ / circle);
  EXPECT_THAT(keys(find({folder_})), ElementsAre("a", "b"));
  EXPECT_THAT(keys(find({folder_}, {.recursive = true})), ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(find({folder_})[1].size, 1u);
  LeftOut out;
  find_inputs(runtime_->io(), {folder_}, {.recursive = true}, &out);
  EXPECT_EQ(out.hidden, 2);
  EXPECT_EQ(out.links, 3);
  std::vector<std::string> unreadable;
  EXPECT_THAT(local_files_matching(folder_ / "**/?.mp4", unreadable),
              ElementsAre(folder_ / "b.mp4", folder_ / "sub/c.mp4", folder_ / "sub/deep/d.mp4"));
}

TEST_F(Inputs, OfAFolderAreTheFoldersBelowThatAreNotReadCounted) {
  put("a.mp4"), put("sub/c.mp4"), put("deep/d/e.mp4"), put(".git/e.mp4"), put("only/below/f.mp4");
  LeftOut out;
  find_inputs(runtime_->io(), {folder_}, {}, &out);
  EXPECT_EQ(out.folders, 3);
  find_inputs(runtime_->io(), {folder_}, {.recursive = true}, &out);
  EXPECT_EQ(out.folders, 0);
  const auto none = find({folder_ / "only/"});
  ASSERT_EQ(none.size(), 1u);
  EXPECT_THAT(none[0].error,
              HasSubstr("contains no files; 1 folder below is not read; recursive = true reads it; fix"));
}

// Files whose ending is not a video's are skipped and counted, unless a pattern or list names them.
TEST_F(Inputs, OfAFolderAreNotItsListsPicturesAndLogs) {
  put("a.mp4"), put("b"), put("c.dat"), put("a.txt"), put("b.JPG"), put("c.jpg"), put("d.mp4.part"),
      put("sub/e.srt");
  LeftOut out;
  EXPECT_THAT(keys(all_of(*find_inputs(runtime_->io(), {folder_}, {.recursive = true}, &out))),
              ElementsAre("a", "b", "c"));
  EXPECT_EQ(out.endings,
            (std::map<std::string, int64_t>{{".txt", 1}, {".jpg", 2}, {".part", 1}, {".srt", 1}}));
  EXPECT_EQ(out.not_videos(), 5);
  EXPECT_EQ(find({folder_}, {.recursive = true, .all_files = true}).size(), 8u);
  EXPECT_THAT(keys(find({(folder_ / "*.JPG").string()})), ElementsAre("b"));
  EXPECT_THAT(keys(find({put("lists/l.txt", "../c.jpg\n../*.part\n")})), ElementsAre("c", "d-mp4"));
  const auto none = find({(folder_ / "sub").string() + "/"});
  ASSERT_EQ(none.size(), 1u);
  EXPECT_THAT(none[0].error,
              HasSubstr("contains no file with the ending of a video; all_files = true takes every file"));
}

TEST_F(Inputs, OfAFolderArePicturesOnlyOnRequest) {
  put("a.mp4"), put("b.JPG"), put("c.jpeg"), put("d.png"), put("e.webp"), put("f.tif"), put("g.txt");
  LeftOut out;
  EXPECT_THAT(keys(all_of(*find_inputs(runtime_->io(), {folder_}, {}, &out))), ElementsAre("a"));
  EXPECT_EQ(out.pictures(), 4);
  EXPECT_THAT(keys(all_of(*find_inputs(runtime_->io(), {folder_}, {.pictures = true}, &out))),
              ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_EQ(out.pictures(), 0);
  EXPECT_EQ(out.not_videos(), 2);
}

TEST_F(Inputs, OfAListAreItsLinesAndWhatIsMissingSaysWhere) {
  put("a.mp4"), put("sub/b.mp4"), put("empty/.x");
  const auto list = put("videos.txt", "# videos\n\na.mp4\n  sub/*.mp4\r\n" + (folder_ / "a.mp4").string() +
                                          "\nnone/*.mkv\nempty/\ns3://bucket/c.mp4\ngone/\n");
  const auto found = find({list});
  ASSERT_THAT(keys(found), ElementsAre("a", "b", "a-2", "*", "empty", "c", "gone"));
  EXPECT_EQ(found[2].url, folder_ / "a.mp4");
  EXPECT_THAT(found[3].error, testing::AllOf(HasSubstr("none/*.mkv"), HasSubstr("line 6 of")));
  EXPECT_THAT(found[4].error, testing::AllOf(HasSubstr("contains no files"), HasSubstr("line 7 of")));
  EXPECT_EQ(found[5].url, "s3://bucket/c.mp4");
  EXPECT_THAT(found[6].error, HasSubstr("line 9 of"));
}

// Root can read everything: this test runs as an unprivileged user.
TEST_F(Inputs, OfAFolderThatCannotBeReadAreItselfWithWhy) {
  put("a.mp4"), put("sub/b.mp4");
  const auto list = put("lists/l.txt", "../**/*.mp4\n");
  find({folder_});  // the storage is open
  fs::permissions(folder_, fs::perms::others_read | fs::perms::others_exec, fs::perm_options::add);
  fs::permissions(folder_ / "sub", fs::perms::none);
  const bool root = geteuid() == 0;
  ASSERT_EQ(root ? seteuid(65534) : 0, 0);
  std::vector<std::string> unreadable;
  const auto matched = local_files_matching(folder_ / "**/*.mp4", unreadable);
  const auto listed = find({folder_}, {.recursive = true, .all_files = true});
  const auto by_list = find({list});
  ASSERT_EQ(root ? seteuid(0) : 0, 0);
  fs::permissions(folder_ / "sub", fs::perms::owner_all);
  EXPECT_THAT(matched, ElementsAre(folder_ / "a.mp4"));
  EXPECT_THAT(unreadable, ElementsAre(folder_ / "sub"));
  ASSERT_THAT(keys(listed), ElementsAre("a", "l", "sub"));
  EXPECT_THAT(listed[2].error, HasSubstr("sub/: cannot be listed"));
  ASSERT_THAT(keys(by_list), ElementsAre("a", "sub"));
  EXPECT_THAT(by_list[1].error, HasSubstr("sub: the folder cannot be read"));
}

TEST_F(Inputs, OfAManifestHaveTheUsersWords) {
  put("a.mp4"), put("b.mp4");
  const auto jsonl = put("m.jsonl",
                         "{\"url\": \"a.mp4\", \"caption\": \"A boat.\", \"licence\": \"CC0\", \"n\": 3}\n\n"
                         "{\"path\": \"b.mp4\", \"key\": \"my.film\", \"caption\": null}\nno json\n"
                         "{\"caption\": \"of nothing\"}\n{\"url\": 7}\n");
  const auto found = find({jsonl});
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].caption, "A boat.");
  EXPECT_EQ(found[0].user, (json{{"licence", "CC0"}, {"n", 3}}));
  EXPECT_EQ(found[0].url, folder_ / "a.mp4");
  EXPECT_EQ(found[1].wanted, "my.film");
  EXPECT_EQ(keys(found)[1], "my-film");
  EXPECT_EQ(found[1].caption, std::nullopt);
  EXPECT_EQ(found[1].user, json::object());
  for (const auto& [at, words] : {std::pair{2, "line 4: it is not a JSON object"},
                                  {3, "line 5: it names no video"},
                                  {4, "line 6: 'url' must be text, found 7"}})
    EXPECT_THAT(found[at].error, HasSubstr(words));
  const auto csv = find({put("m.csv", "path,caption,licence\nb.mp4,\"A \"\"boat\"\", two\",\nb.mp4,x\n")});
  ASSERT_EQ(csv.size(), 2u);
  EXPECT_EQ(csv[0].caption, "A \"boat\", two");
  EXPECT_EQ(csv[0].user, json::object());
  EXPECT_THAT(csv[1].error, HasSubstr("record 3: 2 fields, but the first line names 3 columns"));
  EXPECT_THROW(find({put("bad.csv", "name,caption\n")}), Error);
  try {
    find({put("twice.csv", "path,tag,licence,tag\nb.mp4,x,,y\n")});
    ADD_FAILURE() << "the first tag would be lost";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("twice.csv: line 1: columns 2 and 4 are both called 'tag'"));
  }
  const auto nameless =
      find({put("nameless.csv", "path,,\na.mp4,,\nb.mp4,x,y\n")});  // as spreadsheets end their lines
  ASSERT_EQ(nameless.size(), 2u);
  EXPECT_EQ(nameless[0].error, "");
  EXPECT_THAT(nameless[1].error,
              HasSubstr("nameless.csv: record 3: two nameless columns have a value, the second is column 3"));
  EXPECT_THROW(find({put("bad.csv", "path,\"caption\nb.mp4,x\n")}), Error);
  const auto open = find({put("open.csv", "path,caption\na.mp4,x\nb.mp4,\"a boat\n")});
  ASSERT_EQ(open.size(), 2u);
  EXPECT_THAT(open[1].error, HasSubstr("open.csv: record 3: a quote is not closed; put a field with quotes"));
  const auto quoted = find({put("q.csv", "path,caption\nb.mp4,a \"boat\"\na.mp4,x\n")});
  ASSERT_EQ(quoted.size(), 2u);
  EXPECT_THAT(quoted[0].error, HasSubstr("q.csv: record 2: a quote is not closed, or is inside a field; "));
  EXPECT_EQ(quoted[1].caption, "x");
}

TEST_F(Inputs, OfAListThatBeginsWithAByteOrderMarkAreItsVideos) {
  put("a.mp4");
  for (const char* list : {"\xEF\xBB\xBF"
                           "a.mp4\n",
                           "\xEF\xBB\xBF# videos\r\na.mp4"}) {
    const auto found = find({put("l.txt", list)});
    ASSERT_EQ(found.size(), 1u) << list;
    EXPECT_EQ(found[0].url, folder_ / "a.mp4");
  }
}

TEST_F(Inputs, OfAManifestWhoseKeysHadToChangeAreNamedOnce) {
  const auto one = put("one.jsonl",
                       "{\"url\": \"a.mp4\", \"key\": \"hero\"}\n{\"url\": \"b.mp4\", \"key\": \"hero\"}\n"
                       "{\"url\": \"c.mp4\", \"key\": \"a.b/c\"}\n{\"url\": \"d.mp4\"}\n");
  const auto two = put("two.csv", "url,key\nd.mp4,fine\nd.mp4,\n"),
             three = put("three.csv", "url,key\ne.mp4,x/y\n");
  LeftOut out;
  const auto inputs = find_inputs(runtime_->io(), {one, folder_ / "two.csv", three}, {}, &out);
  name_inputs(*inputs);
  EXPECT_THAT(keys(all_of(*inputs)), ElementsAre("hero", "hero-2", "a-b-c", "d", "fine", "d-2", "x-y"));
  EXPECT_THAT(
      changed_keys(*inputs, out),
      ElementsAre(testing::AllOf(HasSubstr("one.jsonl: 2 keys are"), HasSubstr("'hero' is now 'hero-2'")),
                  testing::AllOf(HasSubstr("three.csv: 1 key is"), HasSubstr("'x/y' is now 'x-y'"))));
}

TEST_F(Inputs, OfAManifestAreNamedAsItSaysBeforeTheOthersAre) {
  const auto list = put("m.jsonl", "{\"url\": \"boat.mp4\"}\n{\"url\": \"x.mp4\", \"key\": \"boat\"}\n");
  LeftOut out;
  const auto inputs = find_inputs(runtime_->io(), {list}, {}, &out);
  name_inputs(*inputs);
  EXPECT_THAT(keys(all_of(*inputs)), ElementsAre("boat-2", "boat"));
  EXPECT_THAT(changed_keys(*inputs, out), testing::IsEmpty());
}

TEST_F(Inputs, OfAManifestWhoseColumnIsALetterAwayFromAKnownOneSayIt) {
  const auto said = [&](const std::string& name, const std::string& text) {
    LeftOut out;
    find_inputs(runtime_->io(), {put(name, text)}, {}, &out);
    return out.columns;
  };
  EXPECT_THAT(
      said("a.csv", "url,captions,licence\na.mp4,A boat.,CC0\n"),
      ElementsAre(HasSubstr(
          "a.csv: column 'captions' is kept as a column of your own; if you mean 'caption', rename it")));
  EXPECT_THAT(said("b.jsonl",
                   "{\"url\": \"a.mp4\", \"Caption\": \"A boat.\"}\n{\"url\": \"b.mp4\", \"ky\": \"b\", "
                   "\"Caption\": \"\"}\n"),
              ElementsAre(HasSubstr("'Caption'"), HasSubstr("if you mean 'key'")));
  EXPECT_THAT(said("c.csv", "url,caption,captions,author,id\na.mp4,A,B,C,D\n"), testing::IsEmpty());
}

TEST_F(Inputs, OfAManifestArePatternsNone) {
  put("videos/a.mov"), put("odd[1].mp4");
  const auto found = find({put("m.jsonl", "{\"path\": \"videos/*.mov\"}\n{\"path\": \"odd[1].mp4\"}\n")});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(
      found[0].error,
      HasSubstr(
          "videos/*.mov: file not found; patterns work in lists (.txt) and in `input`, not in manifests"));
  EXPECT_EQ(found[1].error, "");
}

// A missing disk: the video is an input whose file is unavailable, in a folder as behind a pattern.
TEST_F(Inputs, ThatAreLinksToNothingAreThereAndUnseen) {
  put("a.mp4"), put("sub/c.mp4");
  fs::create_symlink("unmounted/b.mp4", folder_ / "b.mp4");
  for (const auto& found : {find({folder_}), find({put("lists/l.txt", "../*.mp4\n")}),
                            find({put("lists/d.txt", "../**/?.mp4\n")})}) {
    ASSERT_GE(found.size(), 2u);
    EXPECT_EQ(found[1].url, folder_ / "b.mp4");
    EXPECT_TRUE(found[1].is_unseen());
    EXPECT_FALSE(found[0].is_unseen());
  }
}

TEST_F(Inputs, OfACsvWithoutAColumnOfVideosSayWhatItHas) {
  const auto said = [&](const std::string& head) {
    try {
      find({put("bad.csv", head + "\nb.mp4,x\n")});
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_THAT(said("film,caption"), testing::EndsWith("it must name the columns; it has 'film', 'caption'"));
  EXPECT_THAT(said("Caption, URL "), HasSubstr("write ' URL ' as 'url'"));
  EXPECT_THAT(said("path;caption"), HasSubstr("separated by ';'; separate them by ','"));
  EXPECT_THAT(said("url\tcaption"), HasSubstr("separated by tabs"));
  EXPECT_THAT(said(std::string("\xFF\xFEu\0r\0l\0", 8)), HasSubstr("bad.csv:1: half a character in UTF-16"));
  EXPECT_THAT(said("url,ann\x8D"), HasSubstr("bad.csv:1: byte 0x8D is neither UTF-8 nor Windows-1252"));
}

TEST_F(Inputs, AreReadInOtherEncodings) {
  const auto utf16 = [](std::string_view ascii) {
    std::string out = "\xFF\xFE";
    for (const char c : ascii) out += {c, '\0'};
    return out;
  };
  put("b.mp4", "b");
  const auto caption = [&](const std::string& file) { return find({file}).at(0).caption.value_or(""); };
  EXPECT_EQ(caption(put("a.csv", "url,caption\nb.mp4,caf\xE9 \x93x\x94\n")), "caf\u00e9 \u201cx\u201d");
  EXPECT_EQ(caption(put("b.csv", utf16("url,caption\nb.mp4,sea\n"))), "sea");
  EXPECT_EQ(caption(put("c.jsonl", utf16("{\"url\": \"b.mp4\", \"caption\": \"sea\"}\n"))), "sea");
  EXPECT_EQ(find({put("d.txt", utf16("b.mp4\n"))}).at(0).url, folder_ / "b.mp4");
  put("gr\u00fcn.mp4", "of a disk in UTF-8");
  EXPECT_EQ(find({put("e.txt", "gr\xFCn.mp4\n")}).at(0).url, folder_ / "gr\u00fcn.mp4");
  put("gr\xFCn.mp4", "of a disk in Latin-1");
  EXPECT_EQ(find({put("e.txt", "gr\xFCn.mp4\n")}).at(0).url, folder_ / "gr\xFCn.mp4");
}

TEST_F(Inputs, HaveKeysThatAreFilesNamesAndDiffer) {
  const auto list = put("l.txt", "x/f.mp4\ny/f.mkv\nf-0000.mp4\nf-0000-0000.mp4\na.b.c.mp4\n\xFF.mp4\n" +
                                     std::string(300, 'y') + ".mp4\nz-001.mp4\n");
  const auto found = keys(find({list}));
  EXPECT_THAT(found, ElementsAre("f", "f-2", "f-0000-film", "f-0000-0000-film", "a-b-c", "\xEF\xBF\xBD",
                                 std::string(150, 'y'), "z-001"));
}

TEST_F(Inputs, KeepTheKeysThatTheJobKnowsThemByWhateverIsAdded) {
  put("x/f.mp4"), put("y/f.mp4"), put("w/f.mp4"), put("v/f-2.mp4");
  const auto url = [&](const char* name) { return (folder_ / name).string(); };
  using KeyByUrl = std::map<std::string, std::string>;  // url and key
  const auto keys_of = [&](const std::string& lines, KeyByUrl known, const char* list = "l.txt") {
    auto inputs = find({put(list, lines)});
    for (auto& input : inputs) input.key_before = std::exchange(known[input.url], "");
    return keys(inputs);
  };
  const KeyByUrl known{{url("x/f.mp4"), "f"}, {url("y/f.mp4"), "f-2"}};
  EXPECT_THAT(keys_of("w/f.mp4\nx/f.mp4\nv/f-2.mp4\ny/f.mp4\n", {}), ElementsAre("f", "f-2", "f-2-2", "f-3"));
  EXPECT_THAT(keys_of("w/f.mp4\nx/f.mp4\nv/f-2.mp4\ny/f.mp4\n", known),
              ElementsAre("f-3", "f", "f-2-2", "f-2"));
  EXPECT_THAT(keys_of("w/f.mp4\ny/f.mp4\n", known), ElementsAre("f", "f-2"))
      << "the key of a removed video is free";
  EXPECT_THAT(keys_of("y/f.mp4\ny/f.mp4\nx/f.mp4\n", known), ElementsAre("f-2", "f-3", "f"))
      << "each key is used once";
  // Keys that people give come first.
  EXPECT_THAT(keys_of("url,key\nw/f.mp4,\nx/f.mp4,\ny/f.mp4,f\n", known, "l.csv"),
              ElementsAre("f-2", "f-3", "f"));
  EXPECT_THAT(keys_of("url,key\nw/f.mp4,f\ny/f.mp4,f\nx/f.mp4,f\n", known, "l.csv"),
              ElementsAre("f-3", "f-2", "f"));
  EXPECT_THAT(keys_of("url,key\nw/f.mp4,f\ny/f.mp4,f\n", known, "l.csv"), ElementsAre("f", "f-2"));
  EXPECT_THAT(keys_of("url,key\ny/f.mp4,f\n", known, "l.csv"), ElementsAre("f"));
}

TEST_F(Inputs, HaveAnotherIdentityWhenTheFileOrTheWordsChange) {
  const auto video = put("a.mp4");
  const auto list = put("m.jsonl", "{\"url\": \"a.mp4\", \"caption\": \"A boat.\"}\n");
  const auto before = find({list})[0].identity();
  EXPECT_EQ(find({list})[0].identity(), before);
  put("m.jsonl", "{\"url\": \"a.mp4\", \"caption\": \"A ship.\"}\n");
  const auto words = find({list})[0].identity();
  EXPECT_NE(words, before);
  put("a.mp4", "longer");
  EXPECT_NE(find({list})[0].identity(), words);
}

}  // namespace
}  // namespace kinora::core
