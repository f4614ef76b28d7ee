#include "apps/studio/catalogue.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

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
      R"({"key":"f-0001","end":"filtered","stage":"filter.blur","reason":"filter.blur","score":3.5,"parent":"f","facts":{"duration_s":2,"scores":{"filter.motion":7}}})"
      "\nnot json\n"
      R"({"key":"../../etc/passwd","end":"kept"})"
      "\n"
      R"({"key":"f","end":"kept","consumed":true,"url":"/films/f.mp4","facts":{"duration_s":99},"shots":{"cuts":[1,2],"fps":24}})"
      "\n"
      R"({"key":"f-0000","end":"kept","parent":"f","caption":"old"})"
      "\n"
      R"({"key":"f-0000","end":"kept","parent":"f","caption":"new","facts":{"duration_s":4,"ok":true}})"
      "\n");
  const Catalogue c = read_catalogue(curate_jobs(folder_));
  ASSERT_EQ(c.clips.size(), 3U);
  EXPECT_EQ(c.unreadable, 2);
  EXPECT_EQ(c.clips[1].id, "clips/f-0000");
  EXPECT_EQ(c.clips[1].caption, "new");  // the later line of a key
  EXPECT_EQ(c.value("duration_s", 1), 4);
  EXPECT_TRUE(std::isnan(c.value("duration_s", 0)));  // a film that is shown as its clips
  EXPECT_EQ(c.value("scores.filter.blur", 2), 3.5);
  EXPECT_EQ(c.value("scores.filter.motion", 2), 7);
  EXPECT_EQ(item_of(c, c.clips[0])["shots"]["cuts"].size(), 2U);
  EXPECT_EQ(c.find("clips/../../etc/passwd"), nullptr);
}

TEST_F(CatalogueTest, AJobThatRunsShowsWhatItHasStored) {
  write("clips/data/f-0000.mp4", "video");
  write("clips/data/f-0000.txt", "a caption");
  write("clips/data/f-0000.json", R"({"film":"f","duration_s":3})");
  write("clips/data/f-0001.mp4", "its marker is not there yet");
  const Catalogue c = read_catalogue(curate_jobs(folder_ / "clips"));
  ASSERT_EQ(c.clips.size(), 1U);
  EXPECT_EQ(c.clips[0].caption, "a caption");
  EXPECT_EQ(c.clips[0].film, "f");
  EXPECT_EQ(media_of(c, c.clips[0]).path.filename(), "f-0000.mp4");
}

TEST_F(CatalogueTest, AFileIsServedOnlyIfItIsStoredOrTheFilmOfALine) {
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
  EXPECT_TRUE(media_of(c, *c.find("clips/c")).path.empty());  // no film
  const Media film = media_of(c, *c.find("clips/b"));
  EXPECT_TRUE(film.is_film);
  EXPECT_EQ(film.path, folder_ / "film.mp4");
}

TEST_F(CatalogueTest, KeysMayHaveFoldersAndLeadNowhereElse) {
  fs::create_directories(folder_ / "clips/data/day/1");
  write("clips/data/day/1/f-0000.mp4", "video");
  write("clips/data/day/1/f-0000.json", R"({"film":"day/1/f"})");
  write("clips/secret.mp4", "x");
  fs::create_directory_symlink(folder_ / "clips", folder_ / "clips/data/out");
  const Catalogue running = read_catalogue(curate_jobs(folder_));
  ASSERT_NE(running.find("clips/day/1/f-0000"), nullptr);
  EXPECT_EQ(running.find("clips/day/1/f-0000")->film, "day/1/f");
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
      EXPECT_EQ(e.code(), KINORA_NOT_FOUND);
      EXPECT_THAT(e.what(), testing::HasSubstr(folder.string()));
    }
}

}  // namespace
}  // namespace kinora::studio
