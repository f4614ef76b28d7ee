#include "plugins/jobs/curation/edits.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "plugins/jobs/curation/drops.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Edit edit(const std::string& key, Change set, Change was = {}, EditKind kind = EditKind::edit,
          const std::string& author = "mia") {
  return {key, "2026-01-31T09:30:00.125Z", author, std::move(set), std::move(was), kind};
}

TEST(Edits, ALineGivesItselfBack) {
  Edit in = edit("film-0003", {"a \"boat\"\nat sea, \xC3\xA9", "", false, Tags{"sea", "\"calm\""}},
                 {std::nullopt, "why", std::nullopt});
  in.set.trim = Trim{12, 80};
  in.more = true;
  const std::string line = line_of(in);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto out = parse_edit(line);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->key, in.key);
  EXPECT_EQ(out->time, in.time);
  EXPECT_EQ(out->author, in.author);
  EXPECT_EQ(out->set, in.set);
  EXPECT_TRUE(out->more);
  EXPECT_EQ(json::parse(line)["set"]["trim"], json({12, 80}));
  EXPECT_EQ(json::parse(line)["was"], (json{{"reason", "why"}}));
}

TEST(Edits, WhatIsWrongWithALineIsSaid) {
  for (const auto& [line, why] : {std::pair{"", "not a JSON object"},
                                  {"{", "not a JSON object"},
                                  {"[]", "not a JSON object"},
                                  {R"({"key":1,"set":{}})", "no \"key\""},
                                  {R"({"key":"a"})", "no object \"set\""},
                                  {R"({"key":"a","set":{"keep":"no"}})", "\"keep\" must be"},
                                  {R"({"key":"a","set":{"tags":"sea"}})", "\"tags\" must be"},
                                  {R"({"key":"a","set":{"tags":[1]}})", "\"tags\" must be"},
                                  {R"({"key":"a","set":{"trim":[8,8]}})", "\"trim\" must be"},
                                  {R"({"key":"a","set":{"trim":[-1,8]}})", "\"trim\" must be"},
                                  {R"({"key":"a","set":{"trim":[1.5,8]}})", "\"trim\" must be"},
                                  {R"({"key":"a","set":{"caption":7}})", "\"caption\" must be"}}) {
    const auto edit = parse_edit(line);
    ASSERT_FALSE(edit) << line;
    EXPECT_THAT(edit.failure().message, testing::HasSubstr(why)) << line;
  }
  EXPECT_TRUE(parse_edit(R"({"key":"a","set":{"url":"x"},"of later versions":1})"));
}

TEST(Edits, AWrongChangeIsNamed) {
  for (const auto& [set, named] : {std::pair{R"({"keep":1})", "set.keep"},
                                   {R"({"caption":1})", "set.caption"},
                                   {R"({"key":"x"})", "set.key"},
                                   {R"({"tags":["x"]})", "set.tags"},
                                   {R"({"trim":[9,3]})", "set.trim"},
                                   {R"("x")", "object"}})
    try {
      (void)change_of(json::parse(set));
      ADD_FAILURE() << set;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(named));
    }
  EXPECT_THROW((void)change_of({{"caption", std::string(1 << 17, 'x')}}), Error);
}

TEST(Edits, TagsOfARequestAreTextsWithoutBlanksEachOnce) {
  EXPECT_EQ(tags_of({" sea", "calm", "sea\n"}, "tag"), (Tags{"sea", "calm"}));
  const Tags long_one{std::string(201, 'x')}, many(101, "x");
  for (const json& wrong :
       {json("sea"), json(std::vector{1}), json(Tags{""}), json(Tags{"  "}), json(long_one), json(many)})
    EXPECT_THROW((void)tags_of(wrong, "tag"), Error) << wrong;
  EXPECT_EQ(tags_in({{"tags", {"sea"}}}), Tags{"sea"});
  EXPECT_EQ(tags_in({{"tags", "sea"}}), Tags()) << "a fact of any origin";
}

TEST(EditHistory, AStepCountsOnceItsLastLineIsThere) {
  const std::string first = R"({"key":"a","set":{"keep":false},"more":true})"
                            "\n",
                    last = R"({"key":"b","set":{"keep":false}})"
                           "\n";
  EditHistory h;
  const auto no_wrong = [](size_t, const std::string& why) { ADD_FAILURE() << why; };
  EXPECT_EQ(h.add_lines(first, no_wrong), 0U);
  EXPECT_TRUE(h.edited().empty());
  EXPECT_EQ(h.add_lines(first + last + first, no_wrong), first.size() + last.size());
  EXPECT_EQ(h.edited().size(), 2U);
  EXPECT_EQ(h.undoable("").size(), 2U);
}

TEST(EditHistory, TheLastValueOfEachFieldWins) {
  EditHistory h;
  h.add(edit("a", {"one", std::nullopt, std::nullopt}));
  h.add(edit("a", {std::nullopt, "shaky", false}));
  h.add(edit("a", {"two", std::nullopt, std::nullopt}, {"one", std::nullopt, std::nullopt}));
  h.add(edit("b", {"other", std::nullopt, std::nullopt}));
  EXPECT_EQ(h.now("a"), (Change{"two", "shaky", false}));
  EXPECT_EQ(h.now("c"), Change());
  EXPECT_EQ(h.of("a").size(), 3U);
}

TEST(EditHistory, NullTakesBackAndIsNoStepOfUndo) {
  EditHistory h;
  const auto line = [&](const char* text) { h.add(*parse_edit(text)); };
  line(R"({"key":"a","author":"mia","set":{"caption":"one","keep":false}})");
  line(R"({"key":"a","author":"mia","set":{"keep":null}})");
  EXPECT_EQ(h.now("a"), (Change{"one", std::nullopt, std::nullopt}));
  line(R"({"key":"a","author":"mia","set":{"caption":null}})");
  EXPECT_EQ(h.now("a"), Change());
  EXPECT_TRUE(h.edited().empty());
  EXPECT_EQ(h.undoable("mia").at(0)->set.caption, "one");
}

TEST(EditHistory, NullIsNoDecisionForWhatIsDroppedElsewhere) {
  EditHistory h;
  const auto line = [&](const char* text) { h.add(*parse_edit(text)); };
  const auto drops = [&] {
    std::map<std::string, Drop> out{{"a", {"dedup.semantic", "", "b", 0.99}}};
    apply_edits(h, out);
    return out;
  };
  line(R"({"key":"a","author":"mia","set":{"keep":true}})");
  line(R"({"key":"b","author":"mia","set":{"keep":false}})");
  EXPECT_FALSE(drops().contains("a"));
  EXPECT_TRUE(drops().contains("b"));
  line(R"({"key":"b","author":"mia","set":{"keep":null},"undo":true})");
  line(R"({"key":"a","author":"mia","set":{"keep":null},"undo":true})");
  EXPECT_EQ(drops().at("a").rule, "dedup.semantic");
  EXPECT_FALSE(drops().contains("b"));
  EXPECT_TRUE(h.edited().empty());
  // The undo of a decision that followed no decision was written without null: it means the same.
  line(R"({"key":"a","author":"mia","set":{"keep":false}})");
  line(R"({"key":"a","author":"mia","set":{"keep":true},"undo":true})");
  EXPECT_EQ(drops().at("a").rule, "dedup.semantic");
}

TEST(EditHistory, ACaptionIsTheAuthorsWhoWroteItUntilItIsUndone) {
  EditHistory h;
  h.add(edit("a", {"one", std::nullopt, std::nullopt}, {}, EditKind::edit, "tom"));
  h.add(edit("a", {"two", std::nullopt, std::nullopt}));
  h.add(edit("a", {std::nullopt, "dark", false}, {}, EditKind::edit, "eve"));
  EXPECT_EQ(h.now("a").author, "mia");
  h.add(edit("a", {"one", std::nullopt, std::nullopt}, {}, EditKind::undo));
  EXPECT_EQ(h.now("a").caption, "one");
  EXPECT_EQ(h.now("a").author, "tom");
}

TEST(EditHistory, LinesAreNumberedWhereverTheReaderStopped) {
  EditHistory h;
  std::vector<size_t> wrong;
  const auto note = [&](size_t line, const std::string&) { wrong.push_back(line); };
  const std::string first = "{\"key\":\"a\",\"set\":{\"keep\":false}}\n\nbad\n", torn = "{\"key\":\"b\"";
  EXPECT_EQ(h.add_lines(first + torn, note), first.size());
  EXPECT_EQ(h.add_lines(torn + "}\n", note), torn.size() + 2);
  EXPECT_EQ(wrong, (std::vector<size_t>{3, 4}));
  EXPECT_EQ(h.edited().size(), 1U);
}

TEST(EditHistory, UndoLeavesNoTraceOfAFirstEditAndRedoBringsItBack) {
  EditHistory h;
  h.add(edit("a", {std::nullopt, "dark", false}));
  // A reader without undo support sees the clip's own values.
  h.add(edit("a", {std::nullopt, "", true}, {}, EditKind::undo));
  EXPECT_EQ(h.now("a"), Change());
  EXPECT_TRUE(h.undoable("mia").empty());
  ASSERT_FALSE(h.redoable("mia").empty());
  h.add(edit("a", {std::nullopt, "dark", false}, {}, EditKind::redo));
  EXPECT_EQ(h.now("a"), (Change{std::nullopt, "dark", false}));
  EXPECT_FALSE(h.undoable("mia").empty());
  EXPECT_TRUE(h.redoable("mia").empty());
}

TEST(EditHistory, EachAuthorUndoesTheirOwnAndANewEditEndsRedo) {
  EditHistory h;
  h.add(edit("a", {"one", std::nullopt, std::nullopt}));
  h.add(edit("b", {"two", std::nullopt, std::nullopt}, {}, EditKind::edit, "tom"));
  EXPECT_EQ(h.undoable("mia").at(0)->key, "a");
  EXPECT_EQ(h.undoable("tom").at(0)->key, "b");
  h.add(edit("a", {"own", std::nullopt, std::nullopt}, {}, EditKind::undo));
  EXPECT_EQ(h.redoable("mia").at(0)->key, "a");
  h.add(edit("c", {"three", std::nullopt, std::nullopt}));
  EXPECT_TRUE(h.redoable("mia").empty());
  EXPECT_TRUE(h.redoable("none").empty());
}

class OfAJob : public testing::Test {
 protected:
  OfAJob() : folder_(fs::path(testing::TempDir()) / ("edits-" + std::to_string(getpid()))) {
    fs::create_directories(folder_ / "data");
  }
  ~OfAJob() override { fs::remove_all(folder_); }
  static json footage(const char* video, int first = 0) {
    return {{"sha256", video}, {"first_frame", first}, {"end_frame", first + 50}};
  }
  void clip(const std::string& key, json facts) {
    facts["height"] = 120;
    std::ofstream(folder_ / "data" / (key + ".json")) << facts;
    std::ofstream(folder_ / "data" / (key + ".mp4")) << "x";
  }
  void line(const std::string& key, const json& of, const json& set, const char* step = "no") {
    std::ofstream(folder_ / kEditsFile, std::ios::app)
        << json{{"key", key}, {"author", "mia"}, {"of", of}, {"set", set}, {step, true}} << "\n";
  }
  EditHistory read() const { return read_edits(folder_ / kEditsFile, kept_in(folder_)); }
  fs::path folder_;
};

// b/001.mp4 was "001" until a/001.mp4 was added: now it is "001-2".
TEST_F(OfAJob, AnEditFollowsItsFootageToItsNewKey) {
  line("001-0000", footage("b"), {{"keep", false}, {"caption", "of b"}});
  line("001-0001", footage("b", 50), {{"keep", false}});
  line("001-0002", footage("b", 100), {{"keep", false}});  // its clip is no longer kept, and its key is free
  line("001-0003", footage("b", 150), {{"keep", false}});  // no longer kept, and its key is taken
  clip("001-0000", footage("a")), clip("001-0003", footage("a", 150));
  clip("001-2-0000", footage("b")), clip("001-2-0001", footage("b", 50));
  const auto h = read();
  EXPECT_EQ(h.now("001-0000"), Change()) << "an edit is of one clip";
  EXPECT_EQ(h.now("001-2-0000"), (Change{"of b", std::nullopt, false}));
  EXPECT_EQ(h.now("001-2-0001").keep, false);
  EXPECT_EQ(h.now("001-0002").keep, false);
  EXPECT_EQ(h.edited().size(), 3u);
  ASSERT_EQ(h.of_others().size(), 1u);
  EXPECT_EQ(h.of_others()[0].key, "001-0003");
}

TEST_F(OfAJob, OfEditsByTheOldKeyAndByTheNewTheLaterOneCountsAndIsUndone) {
  clip("001-0000", footage("a")), clip("001-2-0000", footage("b"));
  line("001-0000", footage("b"), {{"keep", false}, {"caption", "first"}});
  line("001-2-0000", footage("b"), {{"caption", "second"}});
  line("001-0000", footage("a"), {{"caption", "of a"}});
  EXPECT_EQ(read().now("001-2-0000"), (Change{"second", std::nullopt, false}));
  EXPECT_EQ(read().now("001-0000"), (Change{"of a", std::nullopt, std::nullopt}));
  line("001-0000", footage("a"), {{"caption", "own"}}, "undo");
  EXPECT_EQ(read().undoable("mia").at(0)->key, "001-2-0000");
  line("001-2-0000", footage("b"), {{"caption", "first"}}, "undo");
  line("001-2-0000", footage("b"), {{"caption", "own"}, {"keep", true}}, "undo");
  EXPECT_TRUE(read().edited().empty()) << "the undo of an edit by the old key takes it back";
}

// hash = false: the video's url identifies it.
TEST_F(OfAJob, AnEditStaysWithItsVideoWhereVideosAreNotHashed) {
  const auto of = [](const char* url) { return json{{"url", url}, {"first_frame", 0}, {"end_frame", 50}}; };
  const json frames{{"first_frame", 0}, {"end_frame", 50}};
  clip("film-0000", of("w/film.mp4")), clip("film-2-0000", of("x/film.mp4"));
  line("film-0000", of("x/film.mp4"), {{"keep", false}});
  line("film-2-0000", of("gone/film.mp4"), {{"caption", "of nobody"}});
  line("film-0000", frames, {{"reason", "of before edits said so"}});
  const auto h = read();
  EXPECT_EQ(h.now("film-0000"), (Change{std::nullopt, "of before edits said so", std::nullopt}));
  EXPECT_EQ(h.now("film-2-0000"), (Change{std::nullopt, std::nullopt, false}));
  ASSERT_EQ(h.of_others().size(), 1u);
  EXPECT_EQ(subject_of({{"sha256", "s"}, {"url", "u"}, {"first_frame", 1}}),
            (json{{"sha256", "s"}, {"first_frame", 1}}))
      << "a hashed video may be stored elsewhere";
}

TEST_F(OfAJob, NobodyKnowsWhichOfTwoWithTheSameFootageAnEditIsAbout) {
  line("x-0000", footage("b"), {{"keep", false}});
  clip("x-0000", footage("a")), clip("x-2-0000", footage("b")), clip("x-3-0000", footage("b"));
  EXPECT_TRUE(read().edited().empty());
  EXPECT_EQ(read().of_others().size(), 1u);
}

}  // namespace
}  // namespace kinora::core
