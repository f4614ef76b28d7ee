// Videos that a model makes together. A video with the prompt "waits" is made until its file `go` is there.
#include <sstream>

#include "apps/serve/videos_testing.hpp"

namespace kinora::serve {
namespace videos_batch_test {

using Ids = std::vector<std::string>;

class VideosBatch : public VideosTest {
 protected:
  VideosBatch() { settings_.models[0].batch = 3; }
  static std::string create(Videos& videos, const std::string& prompt, int frames = 8) {
    return videos.create({{"prompt", prompt}, {"num_frames", frames}}, {}, "").at("id");
  }
  void go(const std::string& id) const { std::ofstream(folder_of(id) / "go") << "x"; }
  // Queues videos with these prompts while another one is made, and lets that one end.
  Ids queued(Videos& videos, const Ids& prompts) const {
    const std::string first = create(videos, "waits");
    Ids out;
    for (const auto& prompt : prompts) out.push_back(create(videos, prompt));
    go(first);
    EXPECT_TRUE(becomes(videos, first, "completed"));
    return out;
  }
  // The videos of each message to the process, in the order of the messages.
  std::vector<Ids> begun() const {
    std::vector<Ids> out;
    std::ifstream in(folder_ / "models/m/begun");
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      out.emplace_back();
      for (std::string id; words >> id;) out.back().push_back(id);
    }
    return out;
  }
};

TEST_F(VideosBatch, ThoseAlikeAreMadeTogetherAndOthersKeepTheirOrder) {
  const auto videos = serve();
  const std::string first = create(*videos, "waits"), a = create(*videos, "waits"),
                    b = create(*videos, "x", 4), c = create(*videos, "waits"), d = create(*videos, "waits"),
                    e = create(*videos, "waits");
  EXPECT_EQ(status_of(*videos, a), "queued");
  go(first);
  for (const auto& id : {a, c, d}) EXPECT_TRUE(becomes(*videos, id, "in_progress"));
  EXPECT_EQ(videos->health().at("in_progress"), 3);
  go(a);
  ASSERT_TRUE(becomes(*videos, a, "completed"));
  for (const auto& id : {b, e}) EXPECT_EQ(status_of(*videos, id), "queued") << "the others are not done";
  go(c), go(d), go(e);
  for (const auto& id : {b, c, d, e}) EXPECT_TRUE(becomes(*videos, id, "completed"));
  EXPECT_EQ(begun(), (std::vector<Ids>{{first}, {a, c, d}, {b}, {e}}));
}

TEST_F(VideosBatch, WithoutAKeyEachIsMadeAlone) {
  settings_.models[0].batch = ModelSettings().batch;
  const auto videos = serve();
  const Ids two = queued(*videos, {"x", "y"});
  for (const auto& id : two) EXPECT_TRUE(becomes(*videos, id, "completed"));
  ASSERT_EQ(begun().size(), 3U);
  EXPECT_EQ(begun()[1], Ids{two[0]});
}

TEST_F(VideosBatch, ADeletedOneAndOneThatFailsLeaveTheOthers) {
  const auto videos = serve();
  const Ids three = queued(*videos, {"waits", "fails", "waits"});
  ASSERT_TRUE(becomes(*videos, three[1], "failed"));
  ASSERT_TRUE(eventually([&] { return videos->get(three[2]).at("progress") == 50; }));
  videos->remove(three[0]);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(folder_of(three[0])); }));
  EXPECT_EQ(status_of(*videos, three[2]), "in_progress");
  go(three[2]);
  EXPECT_TRUE(becomes(*videos, three[2], "completed"));
  EXPECT_EQ(bytes_of(videos->content(three[2])), "video " + three[2] + " of waits");
  EXPECT_EQ(begun()[1], three);
  EXPECT_EQ(videos->health().at("in_progress"), 0);
}

TEST_F(VideosBatch, AfterAnEndOfTheProcessEachIsMadeAgainAlone) {
  const auto videos = serve();
  const Ids three = queued(*videos, {"waits", "dies", "waits"});
  ASSERT_TRUE(eventually([&] { return begun().size() == 3; }));
  go(three[0]), go(three[2]);
  ASSERT_TRUE(becomes(*videos, three[2], "completed"));
  EXPECT_EQ(status_of(*videos, three[0]), "completed");
  EXPECT_EQ(status_of(*videos, three[1]), "failed") << "its process ended twice";
  const auto all = begun();
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[1], three);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(all[i + 2], Ids{three[i]});
}

TEST_F(VideosBatch, TheMemoryCountsEach) {
  settings_.memory = 1000 + 2 * 800;
  const auto videos = serve();
  const Ids three = queued(*videos, {"waits", "waits", "x"});
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(becomes(*videos, three[i], "in_progress"));
  EXPECT_EQ(status_of(*videos, three[2]), "queued");
  go(three[0]), go(three[1]);
  EXPECT_TRUE(becomes(*videos, three[2], "completed"));
  const auto all = begun();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1], (Ids{three[0], three[1]}));
}

}  // namespace videos_batch_test
}  // namespace kinora::serve
