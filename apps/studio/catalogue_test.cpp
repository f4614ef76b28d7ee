#include "apps/studio/catalogue.hpp"

#include <chrono>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "plugins/jobs/curation/record.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;

class CatalogueTest : public testing::Test {
 protected:
  CatalogueTest() {
    std::string name = (fs::temp_directory_path() / "kinora-studio-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::create_directories(folder_ / "clips" / "data");
    write("clips/job.json", R"({"kind": "curate"})");
  }
  ~CatalogueTest() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  fs::path folder_;
};

TEST_F(CatalogueTest, ReadsItemsAndTheirNumbersAndSkipsWhatIsNone) {
  write(
      "clips/items.jsonl",
      R"({"key":"f-0001","end":"filtered","stage":"filter.blur","reason":"filter.blur","score":3.5,)"
      R"("parent":"f","facts":{"duration_s":2,"scores":{"filter.motion":7},"bounds":{"filter.blur":{"at_least":4}}}})"
      "\nnot json\n"
      R"({"key":"../../etc/passwd","end":"kept"})"
      "\n"
      R"({"key":"f","end":"kept","consumed":true,"url":"/videos/f.mp4","facts":{"duration_s":99},)"
      R"("shots":{"cuts":[1,2],"fps":24}})"
      "\n"
      R"({"key":"f-0000","end":"kept","parent":"f","caption":"old"})"
      "\n"
      R"({"key":"f-0000","end":"kept","parent":"f","caption":"new",)"
      R"("facts":{"duration_s":4,"ok":true,"bin":{"aspect":"16_9"}}})"
      "\n");
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  ASSERT_EQ(c.clips.size(), 3U);
  EXPECT_EQ(c.unreadable, 2);
  EXPECT_EQ(c.clips[1].id, "clips/f-0000");
  EXPECT_EQ(c.clips[1].caption, "new");  // the later line of a key counts
  EXPECT_EQ(c.value("duration_s", 1), 4);
  EXPECT_TRUE(std::isnan(c.value("duration_s", 0)));  // an input video shown as its clips
  EXPECT_EQ(c.value("scores.filter.blur", 2), 3.5);
  EXPECT_EQ(c.value("scores.filter.motion", 2), 7);
  EXPECT_EQ(c.texts, std::set<std::string>{"bin.aspect"});
  EXPECT_EQ(c.clips[2].bound, 4);
  EXPECT_FALSE(c.clips[2].is_most);
  EXPECT_TRUE(std::isnan(c.clips[1].bound)) << "it was kept";
  EXPECT_FALSE(c.columns.contains("bounds.filter.blur.at_least")) << "an option does not measure the clip";
  EXPECT_EQ(item_of(c, c.clips[0])["shots"]["cuts"].size(), 2U);
  EXPECT_EQ(c.find("clips/../../etc/passwd"), nullptr);
}

TEST_F(CatalogueTest, ATextOfFewValuesIsAFacetWhoseClipsAreKnown) {
  std::ofstream items(folder_ / "clips/items.jsonl");
  const auto add = [&](int n, const nlohmann::json& facts) {
    items << nlohmann::json{{"key", "k" + std::to_string(10 + n)}, {"end", "kept"}, {"facts", facts}} << "\n";
  };
  add(1, {{"codec", "hevc"}});  // replaced below
  for (int n = 13; n > 0; --n) {
    const std::string value = std::to_string(n) + "th";
    add(n, {{"many", value}, {"few", n < 13 ? value : "1th"}, {"long", std::string(81, 'a')}, {"x", n}});
  }
  add(14, {{"codec", "h264"}, {"x", 1}});
  items.close();
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  ASSERT_EQ(c.clips.size(), 14U);
  EXPECT_TRUE(c.facets.at("many").is_of_many) << "13 values";
  EXPECT_TRUE(c.facets.at("long").is_of_many);
  EXPECT_FALSE(c.facets.contains("x"));
  const Facet &few = c.facets.at("few"), &codec = c.facets.at("codec");
  const auto value = [](const Facet& facet, size_t clip) {
    return facet.of[clip] == 0 ? "" : facet.values[facet.of[clip] - 1U];
  };
  EXPECT_EQ(few.values.size(), 12U);
  EXPECT_EQ(value(few, 0), "1th") << "clips are in the order of their keys";
  EXPECT_EQ(value(few, 6), "7th");
  EXPECT_EQ(value(few, 12), "1th");
  EXPECT_EQ(value(few, 13), "");
  EXPECT_EQ(value(codec, 0), "") << "the later line of a key counts";
  EXPECT_EQ(value(codec, 13), "h264");
}

TEST_F(CatalogueTest, AJobThatRunsShowsWhatItHasStored) {
  write("clips/data/f-0000.mp4", "video");
  write("clips/data/f-0000.txt", "a caption");
  write("clips/data/f-0000.json", R"({"film":"f","duration_s":3})");
  write("clips/data/f-0001.mp4", "its field json is not stored yet");
  const Catalogue c = read_catalogue(curate_jobs(folder_ / "clips"));
  ASSERT_EQ(c.clips.size(), 1U);
  EXPECT_EQ(c.clips[0].caption, "a caption");
  EXPECT_EQ(c.clips[0].video, "f");
  EXPECT_EQ(media_of(c, c.clips[0]).path.filename(), "f-0000.mp4");
}

TEST_F(CatalogueTest, AJobAtWorkShowsAllThatHasEndedSoFar) {
  write("clips/items.jsonl", R"({"key":"of an earlier run","end":"kept"})"
                             "\n");
  std::filesystem::create_directories(folder_ / "clips/data");
  core::InputRows inputs;
  for (const char* url : {"/f.mp4", "/broken.mp4"}) inputs.add({.url = url, .size = 1});
  core::Record record(folder_ / "clips", inputs, {.base = "b"});
  const auto end = [&](const char* line, const char* input, int32_t made) {
    record.end(nlohmann::json::parse(line),
               {made, {input}, made ? std::vector<std::string>{input} : std::vector<std::string>{}},
               nlohmann::json::object());
  };
  end(R"({"key":"f-0000","end":"kept","parent":"f","caption":"a boat"})", "f", 1);
  end(R"({"key":"f-0001","end":"filtered","stage":"filter.blur","reason":"filter.blur","score":2,)"
      R"("parent":"f","shots":{"cuts":[1]},"facts":{"duration_s":3}})",
      "f", 1);
  end(R"({"key":"broken","end":"failed","reason":"no video","url":"/broken.mp4"})", "broken", 0);
  const auto jobs = curate_jobs(folder_);
  const Catalogue c = read_catalogue(jobs);
  ASSERT_EQ(c.clips.size(), 3U);
  EXPECT_EQ(c.unreadable, 0);
  EXPECT_TRUE(c.clips[0].is_video);
  EXPECT_EQ(c.clips[0].reason, "no video");
  EXPECT_EQ(c.find("clips/f-0000")->caption, "a boat");
  const Clip* blurred = c.find("clips/f-0001");
  ASSERT_NE(blurred, nullptr);
  EXPECT_FALSE(blurred->is_video);
  EXPECT_EQ(blurred->end, End::filtered);
  EXPECT_EQ(c.value("scores.filter.blur", c.by_id.at("clips/f-0001")), 2);
  EXPECT_EQ(item_of(c, *blurred)["shots"]["cuts"].size(), 1U);
  const std::string stamp = stamp_of(jobs);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  end(R"({"key":"f","end":"kept","url":"/f.mp4"})", "f", 0);
  EXPECT_NE(stamp_of(jobs), stamp);
  write("clips/summary.json", "{}");
  EXPECT_EQ(read_catalogue(jobs).clips.at(0).key, "of an earlier run");
}

TEST_F(CatalogueTest, ASecondSampleOfOneKeyDoesNotHideWhatIsStored) {
  write("clips/items.jsonl", R"({"key":"a","end":"kept","caption":"stored"})"
                             "\n"
                             R"({"key":"a","end":"failed","reason":"a second one"})"
                             "\n");
  write("clips/summary.json", "{}");
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  ASSERT_EQ(c.clips.size(), 1U);
  EXPECT_STREQ(outcome_of(c.clips[0]), "kept");
  EXPECT_EQ(c.clips[0].caption, "stored");
}

TEST_F(CatalogueTest, CopiesAreMarkedInTheJobThatTheDecisionsAreAbout) {
  for (const char* job : {"first", "second"}) {
    fs::create_directories(folder_ / job);
    write(std::string(job) + "/job.json", R"({"kind": "curate"})");
  }
  fs::create_directories(folder_ / "copies");
  const std::string two = R"({"key":"a","end":"kept"})"
                          "\n"
                          R"({"key":"b","end":"kept"})"
                          "\n";
  write("first/items.jsonl", R"({"key":"a","end":"kept"})"
                             "\n"
                             R"({"key":"b","end":"failed"})"
                             "\n");
  write("second/items.jsonl", two);
  write("clips/items.jsonl",
        two +
            R"({"key":"c","end":"kept"})"
            "\n"
            R"({"key":"d","end":"filtered","stage":"ingest","reason":"ingest.duplicate","of":"a","url":"/d"})"
            "\n");
  write("copies/decisions.jsonl",
        R"({"key":"a","end":"kept"})"
        "\n"
        R"({"key":"b","end":"filtered","rule":"dedup.semantic","score":0.995,"of":"a"})"
        "\n");
  EXPECT_EQ(read_catalogue(curate_jobs(folder_)).find("second/b")->copy_rule, "")
      << "the dedup job has not ended";
  write("copies/summary.json", R"({"curated": "second"})");
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  const Clip* copy = c.find("second/b");
  EXPECT_EQ(copy->copy_of, "a");
  EXPECT_EQ(copy->copy_rule, "dedup.semantic");
  EXPECT_EQ(copy->copy_score, 0.995);
  EXPECT_STREQ(outcome_of(*copy), "copy");
  EXPECT_STREQ(outcome_of(*c.find("second/a")), "kept");
  EXPECT_EQ(c.find("second/a")->copies, std::vector<std::string>{"second/b"});
  EXPECT_TRUE(c.find("clips/a")->copies.empty()) << "a job's own duplicate is not stored, and takes no place";
  EXPECT_STREQ(outcome_of(*c.find("clips/b")), "kept") << "belongs to another job";
  EXPECT_STREQ(outcome_of(*c.find("first/b")), "failed");
  EXPECT_EQ(c.find("clips/d")->copy_of, "a");
  EXPECT_STREQ(outcome_of(*c.find("clips/d")), "filtered");
}

TEST_F(CatalogueTest, ADecisionIsOfItsFootageAndNotOfWhatHasItsKeyNow) {
  fs::create_directories(folder_ / "copies");
  fs::create_directories(folder_ / "clips/data");
  write("clips/summary.json", "{}");
  write("copies/summary.json", R"({"curated": "clips"})");
  std::string items, decisions;
  for (const char* key : {"a", "b", "c", "d"}) {
    const std::string named = std::string(R"({"key":")") + key + "\"";
    items += named + R"(,"end":"kept"})"
                     "\n";
    decisions += named +
                 (*key == 'a' || *key == 'd' ? R"(,"end":"kept")"
                  : *key == 'b'              ? R"(,"end":"filtered","of":"a")"
                                             : R"(,"end":"filtered","of":"d")") +
                 R"(,"clip":{"sha256":")" + key +
                 R"(","first_frame":0,"end_frame":9}})"
                 "\n";
  }
  write("clips/items.jsonl", items);
  write("copies/decisions.jsonl", decisions);
  const auto found =
      [&](const std::string& videos) {  // footage of a, b, c and d; '-': the clip does not exist
        for (size_t i = 0; i < videos.size(); ++i) {
          const std::string file = std::string("clips/data/") + "abcd"[i] + ".json";
          fs::remove(folder_ / file);
          if (videos[i] != '-')
            write(file, std::string(R"({"sha256":")") + videos[i] +
                            R"(","first_frame":0,"end_frame":9,"height":120})");
        }
        const Catalogue c = read_catalogue(curate_jobs(folder_));
        return c.find("clips/b")->copy_of + c.find("clips/c")->copy_of;
      };
  EXPECT_EQ(found("abcd"), "ad");
  EXPECT_EQ(found("axcd"), "d") << "b is another video now";
  EXPECT_EQ(found("xbcd"), "d") << "the original of b is another video now";
  EXPECT_EQ(found("abc-"), "a") << "the original of c is gone";
}

TEST_F(CatalogueTest, AFileIsServedOnlyIfItIsStoredOrTheVideoOfALine) {
  write("secret.mp4", "x");
  write("film.mp4", "x");
  write("clips/items.jsonl", R"({"key":"a","end":"kept"})"
                             "\n"
                             R"({"key":"b","end":"filtered","parent":"film"})"
                             "\n"
                             R"({"key":"c","end":"failed","url":"/etc/passwd"})"
                             "\n"
                             R"({"key":"film","end":"kept","consumed":true,"url":")" +
                                 (folder_ / "film.mp4").string() + "\"}\n");
  fs::create_symlink(folder_ / "secret.mp4", folder_ / "clips/data/a.mp4");
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  EXPECT_TRUE(media_of(c, *c.find("clips/a")).path.empty());  // a link out of the folder
  EXPECT_TRUE(media_of(c, *c.find("clips/c")).path.empty());  // not a video
  const Media video = media_of(c, *c.find("clips/b"));
  EXPECT_TRUE(video.is_video);
  EXPECT_EQ(video.path, folder_ / "film.mp4");
}

TEST_F(CatalogueTest, APictureIsItsStoredFileOrElseItsSource) {
  write("b.PNG", "x");
  write("clips/data/a.webp", "x");
  write("clips/data/a.mp4", "no picture has a video");
  write("clips/data/f.jpg", "a field of a clip");
  write("clips/items.jsonl", R"({"key":"a","end":"kept","facts":{"picture":"webp"},"url":"/gone.webp"})"
                             "\n"
                             R"({"key":"b","end":"filtered","facts":{"picture":"png"},"url":")" +
                                 (folder_ / "b.PNG").string() +
                                 "\"}\n"
                                 R"({"key":"f","end":"kept"})"
                                 "\n");
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  const auto media = [&](const char* key) { return media_of(c, *c.find(std::string("clips/") + key)); };
  EXPECT_EQ(media("a").path, folder_ / "clips/data/a.webp");
  EXPECT_STREQ(media("a").type, "image/webp");
  EXPECT_EQ(media("b").path, folder_ / "b.PNG");
  EXPECT_STREQ(media("b").type, "image/png");
  EXPECT_TRUE(stored_media(c, *c.find("clips/b")).path.empty());
  EXPECT_TRUE(media("f").path.empty());
}

TEST_F(CatalogueTest, AVideoIsKnownByItsEndingInAnyCaseOrItsEndingIsTold) {
  std::string lines;
  for (const char* name : {"a.MP4", "b.M2ts", "c.exe", "d"}) {
    write(name, "x");
    lines += R"({"key":")" + std::string(1, name[0]) + R"(","end":"filtered","url":")" +
             (folder_ / name).string() + "\"}\n";
  }
  lines += R"({"key":"e","end":"filtered","url":"/gone.mts"})"
           "\n";
  write("clips/items.jsonl", lines);
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  const auto media = [&](const char* key) { return media_of(c, *c.find(std::string("clips/") + key)); };
  EXPECT_EQ(media("a").path, folder_ / "a.MP4");
  EXPECT_STREQ(media("a").type, "video/mp4");
  EXPECT_EQ(media("b").path, folder_ / "b.M2ts");
  EXPECT_STREQ(media("b").type, "video/mp2t");
  EXPECT_TRUE(media("c").path.empty());
  EXPECT_EQ(media("c").ending, ".exe");
  EXPECT_TRUE(media("d").path.empty());
  EXPECT_TRUE(media("e").path.empty());
  EXPECT_EQ(media("e").ending, "") << "the file does not exist";
}

TEST_F(CatalogueTest, VideosOfOneNameAreToldApartByTheirFolders) {
  std::string lines;
  for (const auto& [key, url] : {std::pair{"tape", "/x/monday/tape.mp4"},
                                 {"tape-2", "file:///x/tuesday/tape.MOV"},
                                 {"end", "/a/day/1/end.mp4"},
                                 {"end-2", "/b/day/1/end.mp4"},
                                 {"alone", "/x/monday/alone.mp4"},
                                 {"again", "/y/again.mp4"},
                                 {"again-2", "/y/again.mp4"}})
    lines += R"({"key":")" + std::string(key) + R"(","end":"kept","url":")" + url + "\"}\n";
  write("clips/items.jsonl", lines + R"({"key":"tape-2-0000","end":"kept","parent":"tape-2"})"
                                     "\n");
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  const auto place = [&](const char* key) { return c.place_of(*c.find(std::string("clips/") + key)); };
  EXPECT_EQ(place("tape"), "monday/tape.mp4");
  EXPECT_EQ(place("tape-2"), "tuesday/tape.MOV");
  EXPECT_EQ(place("tape-2-0000"), "tuesday/tape.MOV");
  EXPECT_EQ(place("end"), "a/day/1/end.mp4");
  EXPECT_EQ(place("end-2"), "b/day/1/end.mp4");
  EXPECT_EQ(place("alone"), "");
  EXPECT_EQ(place("again-2"), "/y/again.mp4");
}

TEST_F(CatalogueTest, KeysMayHaveFoldersAndLeadNowhereElse) {
  fs::create_directories(folder_ / "clips/data/day/1");
  write("clips/data/day/1/f-0000.mp4", "video");
  write("clips/data/day/1/f-0000.json", R"({"film":"day/1/f"})");
  write("clips/secret.mp4", "x");
  fs::create_directory_symlink(folder_ / "clips", folder_ / "clips/data/out");
  const Catalogue running = read_catalogue(curate_jobs(folder_));
  ASSERT_NE(running.find("clips/day/1/f-0000"), nullptr);
  EXPECT_EQ(running.find("clips/day/1/f-0000")->video, "day/1/f");
  std::string lines = R"({"key":"day/1/f-0000","end":"kept"})"
                      "\n"
                      R"({"key":"out/secret","end":"kept"})"
                      "\n";
  for (const char* wrong : {"/a", "a/", "a//b", "a/../b", "a/.b", "..", ".", "a/.."})
    lines += std::string(R"({"key":")") + wrong + R"(","end":"kept"})" + "\n";
  write("clips/items.jsonl", lines);
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  EXPECT_EQ(c.unreadable, 8);
  ASSERT_EQ(c.clips.size(), 2U);
  EXPECT_EQ(media_of(c, *c.find("clips/day/1/f-0000")).path, folder_ / "clips/data/day/1/f-0000.mp4");
  EXPECT_TRUE(media_of(c, *c.find("clips/out/secret")).path.empty());  // through a link
}

TEST_F(CatalogueTest, AFolderWithoutACurateJobIsNamed) {
  for (const fs::path& folder : {folder_ / "clips" / "data", folder_ / "none"}) try {
      (void)curate_jobs(folder);
      ADD_FAILURE() << folder;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
      EXPECT_THAT(e.what(), testing::HasSubstr(folder.string()));
    }
}

}  // namespace
}  // namespace kinora::studio
