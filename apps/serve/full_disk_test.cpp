// A server works while its disk is full. SQLite cannot write while the process may have no larger files.
#include "apps/serve/serve_testing.hpp"
#include "apps/web/full_disk_testing.hpp"

namespace kinora::serve {
namespace full_disk_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using web::FullDisk;

using FullDiskTest = VideosTest;
using FullDiskServer = ServeTest;

TEST_F(FullDiskTest, AVideoThatEndsThenIsCompletedLater) {
  const auto videos = serve();
  const std::string id = create(*videos, "waits"), next = create(*videos, "x");
  ASSERT_TRUE(eventually([&] { return videos->get(id).at("progress") == 50; }));
  std::ofstream(folder_of(id) / "go") << "x";
  {
    const FullDisk full;
    ASSERT_TRUE(eventually([&] { return fs::exists(folder_of(id) / "picture.png"); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const json now = videos->get(id);
    EXPECT_EQ(now.at("status"), "in_progress");
    EXPECT_EQ(now.at("progress"), 50) << "it never falls";
    EXPECT_EQ(status_of(*videos, next), "queued");
  }
  EXPECT_TRUE(becomes(*videos, id, "completed"));
  EXPECT_TRUE(becomes(*videos, next, "completed"));
  EXPECT_EQ(bytes_of(videos->content(id)), "video " + id + " of waits");
}

TEST_F(FullDiskTest, AVideoWhoseProcessDiesThenIsMadeAgainLater) {
  const auto videos = serve();
  const std::string id = create(*videos, "waits");
  ASSERT_TRUE(eventually([&] { return videos->get(id).at("progress") == 50; }));
  const fs::path pid = folder_ / "models/m/pid";
  {
    const FullDisk full;
    kill(std::stoi(bytes_of(pid)), SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(status_of(*videos, id), "in_progress");
  }
  std::ofstream(folder_of(id) / "go") << "x";
  EXPECT_TRUE(becomes(*videos, id, "completed"));
}

TEST_F(FullDiskTest, AVideoThatFindsItSoFailsByThatCode) {
  const auto videos = serve();
  const std::string id = create(*videos, "full");
  ASSERT_TRUE(becomes(*videos, id, "failed"));
  EXPECT_EQ(videos->get(id).at("error"), (json{{"code", "disk_full"}, {"message", "the disk is full"}}));
  EXPECT_THAT(videos->metrics(), HasSubstr("kinora_serve_failures_total{code=\"disk_full\"} 1\n"));
  EXPECT_EQ(refusal([&] { videos->wait(id, [] { return false; }); }), "507 disk_full");
}

TEST_F(FullDiskServer, EveryRequestHasAnAnswer) {
  const std::string done = make(kJson, R"({"prompt": "a"})").at("id");
  ASSERT_TRUE(eventually([&] { return status(done) == "completed"; }));
  const std::string runs = make(kJson, R"({"prompt": "waits"})").at("id");
  ASSERT_TRUE(eventually([&] { return status(runs) == "in_progress"; }));
  const std::string of_done = "/v1/videos/" + done, text = R"({"prompt": "b"})";
  const auto is_full = AllOf(StartsWith("HTTP/1.1 507"), HasSubstr("\"code\":\"disk_full\""),
                             HasSubstr(folder_.string()), HasSubstr("x-should-retry: false"));
  const std::string form = "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nb\r\n--b--\r\n";
  {
    const FullDisk full;
    EXPECT_THAT(ask("POST /v1/videos", kToken + kJson, text), is_full);
    EXPECT_THAT(ask("POST /v1/videos", kToken + kForm, form), is_full);
    EXPECT_THAT(ask("POST /v1/images/generations", kToken + kJson, text), is_full);
    EXPECT_THAT(ask("POST " + of_done + "/remix", kToken + kJson, text), is_full);
    EXPECT_THAT(ask("DELETE /v1/videos/" + runs), is_full);
    EXPECT_THAT(ask("GET " + of_done + "/content"), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(ask("GET /v1/videos"), StartsWith("HTTP/1.1 200"));
    EXPECT_TRUE(eventually([&] {
      const std::string health = ask("GET /health", "");
      return health.starts_with("HTTP/1.1 503") && body_of(health).value("status", "") == "disk_full";
    }));
    // Its files make room, although the list cannot change yet.
    EXPECT_THAT(ask("DELETE " + of_done), is_full);
    EXPECT_FALSE(fs::exists(folder_of(done)));
  }
  EXPECT_TRUE(eventually([&] { return ask("GET /health", "").starts_with("HTTP/1.1 200"); }));
  EXPECT_THAT(ask("DELETE " + of_done), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("GET " + of_done), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask("DELETE /v1/videos/" + runs), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(body_of(ask("GET /v1/videos")).at("data"), json::array());
  EXPECT_TRUE(
      eventually([&] { return fs::is_empty(folder_ / "uploads") && fs::is_empty(folder_ / "videos"); }));
}

}  // namespace full_disk_test
}  // namespace kinora::serve
