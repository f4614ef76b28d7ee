// Missing disks and folders: results of their videos are kept, and results of deleted videos are removed.
#include "plugins/jobs/curation/unseen.hpp"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/curation/record.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class UnseenFilms : public testing::Test {
 protected:
  UnseenFilms() : folder_(fs::path(testing::TempDir()) / ("unseen-" + std::to_string(getpid()))) {
    fs::create_directories(job() / "data");
    runtime_ = or_throw(Runtime::start({.plugin_dirs = {}, .log_level = "error"}));
  }
  ~UnseenFilms() override { fs::remove_all(folder_); }
  fs::path job() const { return folder_ / "job"; }
  std::string put(const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << name;
    return (folder_ / name).string();
  }
  std::string list(const std::string& text) {
    std::ofstream(folder_ / "l.txt") << text;
    return (folder_ / "l.txt").string();
  }
  std::vector<Input> find(const std::vector<std::string>& paths) {
    std::vector<std::string> at;
    for (const auto& path : paths) at.push_back(path.starts_with('/') ? path : (folder_ / path).string());
    return find_inputs(runtime_->io(), at, {.recursive = true}, &left_out_, known_films(job(), "x"), drop_);
  }
  // Simulates a run with two clips per video, interrupted in the video with this key after its first clip. Returns the
  // videos that were worked on. Sets identity_ to the identity of the job's inputs.
  std::vector<std::string> run(const std::vector<std::string>& paths, const std::string& killed_in = "") {
    const auto inputs = find(paths);
    identity_ = identity_of(inputs);
    Record record(job(), inputs, {"x"});
    std::vector<std::string> worked;
    for (const auto& input : inputs) {
      record.begin(input);
      if (record.has_ended(input)) continue;
      worked.push_back(input.key);
      std::error_code error;
      const bool readable = input.error.empty() && fs::exists(input.url, error);
      const auto before = record.ended_of(input);
      for (int n = 0; n < 2 && readable; ++n) {
        const std::string key = input.key + "-000" + std::to_string(n);
        if (std::find(before.begin(), before.end(), key) != before.end()) continue;
        record.claim(key);
        std::ofstream(job() / "data" / (key + ".mp4")) << "xyz";
        record.end({{"key", key}, {"end", "kept"}, {"facts", json::object()}, {"parent", input.key}}, 1, {{key + ".mp4", 3}});
        ++made_;
        if (input.key == killed_in) return worked;
      }
      record.end({{"key", input.key}, {"end", readable ? "kept" : "failed"}, {"url", input.url}, {"facts", json::object()}}, 0, {});
    }
    record.each([](const json&, bool, const json&) {});
    record.settle();
    return worked;
  }
  std::vector<std::string> stored() {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(job() / "data")) out.push_back(entry.path().stem());
    std::sort(out.begin(), out.end());
    return out;
  }
  // Runs again and expects all earlier results to be there, and the job's identity to be the same.
  void expect_all_stays(const std::vector<std::string>& paths, const std::string& because, int64_t films) {
    const auto before = stored();
    const std::string identity = identity_;
    EXPECT_THAT(run(paths), IsEmpty());
    EXPECT_EQ(stored(), before);
    EXPECT_EQ(identity_, identity) << "later jobs read the same as before";
    ASSERT_EQ(left_out_.unseen.size(), 1u);
    EXPECT_THAT(left_out_.unseen.begin()->first, HasSubstr(because));
    EXPECT_EQ(left_out_.unseen.begin()->second, films);
  }

  fs::path folder_;
  std::unique_ptr<Runtime> runtime_;
  LeftOut left_out_;
  bool drop_ = false;
  int made_ = 0;
  std::string identity_;
};

TEST_F(UnseenFilms, OfADiskWhoseMountPointIsEmptyStay) {
  put("lib/a.mp4"), put("lib/disk2/b.mp4"), put("lib/disk2/deep/c.mp4"), put("lib/z.mp4");
  EXPECT_THAT(run({"lib/"}), ElementsAre("a", "b", "c", "z"));
  fs::rename(folder_ / "lib/disk2", folder_ / "away");
  fs::create_directories(folder_ / "lib/disk2/lost+found");
  expect_all_stays({"lib/"}, "lib/disk2 is empty", 2);
  const std::string disk = (folder_ / "lib/disk2").string();
  EXPECT_EQ(unseen_line(left_out_), "2 videos are unavailable now, " + disk + "/b.mp4 the first; the results of them are kept (" +
                                        disk + " is empty; unseen = \"drop\" discards them for good)");
  put("lib/more.mp4");
  EXPECT_THAT(run({"lib/"}), ElementsAre("more"));
  EXPECT_EQ(stored().size(), 10u);
  fs::remove_all(folder_ / "lib/disk2");
  fs::rename(folder_ / "away", folder_ / "lib/disk2");
  EXPECT_THAT(run({"lib/"}), IsEmpty()) << "it is available again";
  EXPECT_THAT(left_out_.unseen, IsEmpty());
  fs::rename(folder_ / "lib/disk2", folder_ / "away");
  expect_all_stays({"lib/"}, "lib/disk2 is not there", 2);
  drop_ = true;
  EXPECT_THAT(run({"lib/"}), IsEmpty());
  EXPECT_THAT(stored(), ElementsAre("a-0000", "a-0001", "more-0000", "more-0001", "z-0000", "z-0001"));
}

// A local pattern is already a list of files when a job receives it.
TEST_F(UnseenFilms, OfAPatternStay) {
  const auto a = put("in/d1/a.mp4");
  put("in/d2/b.mp4"), put("in/d2/c.mp4");
  const auto pattern = list("in/**/*.mp4\n");
  run({pattern});
  fs::rename(folder_ / "in/d2", folder_ / "away");
  fs::create_directory(folder_ / "in/d2");
  expect_all_stays({pattern}, "in/d2 is empty", 2);
  expect_all_stays({a, list("in/d2/*.mp4\n")}, "in/d2 is empty", 2);
}

TEST_F(UnseenFilms, OfAnInputThatIsEmptyStayAndItIsNoFailure) {
  put("fa/a.mp4"), put("fb/b.mp4"), put("fb/c.mp4");
  run({"fa/", "fb/"});
  fs::rename(folder_ / "fb", folder_ / "away");
  fs::create_directory(folder_ / "fb");
  expect_all_stays({"fa/", "fb/"}, "fb is empty", 2);
  fs::remove(folder_ / "fb");
  fs::rename(folder_ / "away", folder_ / "fb");
  EXPECT_THAT(run({"fa/", "fb/"}), IsEmpty());
  const auto lines = list("fa/\nfb/\n");
  fs::rename(folder_ / "fb", folder_ / "away");
  EXPECT_THAT(run({lines}), IsEmpty());
  EXPECT_EQ(stored().size(), 6u);
}

// Root can read everything: this test runs as an unprivileged user.
TEST_F(UnseenFilms, OfAFolderThatCannotBeReadStay) {
  put("lib/a.mp4"), put("lib/locked/b.mp4"), put("lib/locked/below/c.mp4");
  run({"lib/"});
  const bool root = geteuid() == 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_))
    fs::permissions(entry, entry.is_directory() ? fs::perms::all : fs::perms::all & ~fs::perms::others_exec);
  fs::permissions(folder_, fs::perms::all);
  for (const auto rights : {fs::perms::none, fs::perms::others_exec | fs::perms::owner_exec}) {
    fs::permissions(folder_ / "lib/locked", rights);
    ASSERT_EQ(root ? seteuid(65534) : 0, 0);
    expect_all_stays({"lib/"}, "lib/locked cannot be read: Permission denied", 2);
    ASSERT_EQ(root ? seteuid(0) : 0, 0);
    fs::permissions(folder_ / "lib/locked", fs::perms::all);
  }
}

TEST_F(UnseenFilms, BehindALinkToNothingStay) {
  put("disk/b.mp4"), put("in/a.mp4");
  fs::create_symlink(folder_ / "disk/b.mp4", folder_ / "in/b.mp4");
  run({"in/"});
  fs::rename(folder_ / "disk", folder_ / "away");
  const auto before = stored();
  run({"in/"});
  EXPECT_EQ(stored(), before);
}

TEST_F(UnseenFilms, ThatSomebodyDeletedOrLeftOutGo) {
  put("lib/a.mp4"), put("lib/b.mp4"), put("lib/c.mp4");
  run({"lib/"});
  fs::remove(folder_ / "lib/b.mp4");
  EXPECT_THAT(run({"lib/"}), IsEmpty());
  EXPECT_THAT(stored(), ElementsAre("a-0000", "a-0001", "c-0000", "c-0001"));
  EXPECT_THAT(run({list("lib/c.mp4\n")}), IsEmpty());
  EXPECT_THAT(stored(), ElementsAre("c-0000", "c-0001"));
  EXPECT_THAT(left_out_.unseen, IsEmpty());
}

// The video is in a folder's listing and named in a list.
TEST_F(UnseenFilms, OfAKilledRunGoOnFromTheirClipsWhenTheyAreBack) {
  for (const bool named : {false, true}) {
    put("in/a.mp4"), put("in/disk/b.mp4");
    const std::vector<std::string> paths{named ? list("in/a.mp4\nin/disk/b.mp4\n") : "in/"};
    run(paths, "b");
    fs::rename(folder_ / "in/disk", folder_ / "away");
    made_ = 0;
    EXPECT_THAT(run(paths), ElementsAre("b")) << "and it fails";
    const std::string away = identity_;
    EXPECT_THAT(stored(), ElementsAre("a-0000", "a-0001", "b-0000"));
    EXPECT_THAT(run(paths), IsEmpty()) << "once";
    fs::rename(folder_ / "away", folder_ / "in/disk");
    EXPECT_THAT(run(paths), ElementsAre("b")) << named;
    EXPECT_NE(identity_, away) << "the job does not count as done";
    EXPECT_EQ(made_, 1) << "the clip that was missing";
    EXPECT_THAT(run(paths), IsEmpty());
    EXPECT_EQ(stored().size(), 4u);
    fs::remove_all(job());
    fs::create_directories(job() / "data");
  }
}

TEST_F(UnseenFilms, AreInTheirOldPlaceAndKeepTheirKeys) {
  put("x/film.mp4"), put("y/film.mp4"), put("z/film.mp4");
  run({"x/", "y/", "z/"});
  const auto before = find({"x/", "y/", "z/"});
  fs::rename(folder_ / "x", folder_ / "away");
  put("a/film.mp4"), put("y/more.mp4");
  const auto now = find({list("x/film.mp4\na/film.mp4\n"), "y/", "z/"});
  std::vector<std::string> keys;
  for (const auto& input : now) keys.push_back(input.key + " " + fs::path(input.url).lexically_relative(folder_).string());
  EXPECT_THAT(keys, ElementsAre("film x/film.mp4", "film-4 a/film.mp4", "film-2 y/film.mp4", "more y/more.mp4", "film-3 z/film.mp4"));
  EXPECT_EQ(now[0].identity(), before[0].identity());
}

TEST_F(UnseenFilms, OfAnotherJobAreNone) {
  put("lib/a.mp4");
  run({"lib/"});
  EXPECT_EQ(known_films(job(), "x").size(), 1u);
  EXPECT_THAT(known_films(job(), "y"), IsEmpty());
  EXPECT_THAT(known_films(folder_ / "nothing", "x"), IsEmpty());
  EXPECT_FALSE(fs::exists(folder_ / "nothing"));
}

}  // namespace
}  // namespace kinora::core
