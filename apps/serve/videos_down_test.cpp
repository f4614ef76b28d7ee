// Models whose processes hang, end or cannot be loaded.
#include <csignal>

#include "apps/serve/videos_testing.hpp"
#include "core/base/log.hpp"

namespace kinora::serve {
namespace videos_down_test {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class VideosDown : public VideosTest {
 protected:
  fs::path of_model(const std::string& name) const { return folder_ / "models" / name; }
  void end_process(const std::string& name) const {
    kill(std::stoi(bytes_of(of_model(name) / "pid")), SIGKILL);
  }
  // Processes that were started.
  int64_t starts(const std::string& name) const {
    const std::string lines = bytes_of(of_model(name) / "starts");
    return std::count(lines.begin(), lines.end(), '\n');
  }
  static std::string create_of(Videos& videos, const std::string& name, const std::string& prompt) {
    return videos.create({{"prompt", prompt}, {"model", name}}, {}, "").at("id");
  }
};

TEST_F(VideosDown, AModelThatHangsIsEndedAndItsVideoMadeAgain) {
  settings_.silence = 2;
  settings_.models = {{.name = "a", .pipeline = folder_ / "a run file"},
                      {.name = "b", .pipeline = folder_ / "b"}};
  const auto videos = serve();
  const std::string kept = create_of(*videos, "a", "stops"), deleted = create_of(*videos, "b", "stops");
  ASSERT_TRUE(eventually(
      [&] { return fs::exists(folder_of(kept) / "begun") && fs::exists(folder_of(deleted) / "begun"); }));
  const auto begin = steady_clock::now();
  videos->remove(deleted);
  EXPECT_EQ(videos->health().at("in_progress"), 2);
  EXPECT_LT(steady_clock::now() - begin, seconds(1));
  EXPECT_TRUE(becomes(*videos, kept, "completed"));
  EXPECT_GE(steady_clock::now() - begin, seconds(1));
  EXPECT_TRUE(
      eventually([&] { return !fs::exists(folder_of(deleted)) && videos->health().at("status") == "ok"; }));
  EXPECT_EQ(videos->health().at("in_progress"), 0);
  EXPECT_THAT(videos->metrics(), AllOf(HasSubstr("kinora_serve_restarts_total{model=\"a\"} 1\n"),
                                       HasSubstr("kinora_serve_restarts_total{model=\"b\"} 1\n"),
                                       HasSubstr("kinora_serve_models_up{model=\"a\"} 1\n"),
                                       HasSubstr("kinora_serve_cancelled_total 1\n")));
}

TEST_F(VideosDown, AModelOfWhichOneRankHangsIsEndedAndItsVideoMadeAgain) {
  settings_.silence = 2;
  settings_.models[0].ranks = 2;
  const auto videos = serve();
  EXPECT_TRUE(becomes(*videos, create(*videos, "rank_stops"), "completed"));
  EXPECT_EQ(starts("m"), 2);
  EXPECT_THAT(videos->metrics(), HasSubstr("kinora_serve_restarts_total{model=\"m\"} 1\n"));
}

TEST_F(VideosDown, AProcessThatGoesOnWithADeletedVideoIsEnded) {
  settings_.silence = 1;
  const auto videos = serve();
  const std::string id = create(*videos, "deaf");
  ASSERT_TRUE(eventually([&] { return videos->get(id).at("progress") == 50; }));
  videos->remove(id);
  EXPECT_TRUE(eventually([&] { return !fs::exists(folder_of(id)); }));
  EXPECT_TRUE(eventually([&] { return starts("m") == 2; }));
  EXPECT_EQ(videos->health().at("in_progress"), 0);
  EXPECT_TRUE(becomes(*videos, create(*videos, "x"), "completed"));
}

TEST_F(VideosDown, TheLogsOfAModelAreBounded) {
  settings_.models[0].ranks = 2;
  const auto videos = serve();
  fs::create_directories(of_model("m") / "ranks");
  const std::vector<fs::path> logs{of_model("m") / "process.log", of_model("m") / "kinora.log",
                                   of_model("m") / "ranks/rank-1.log"};
  for (const auto& log : logs) {
    std::ofstream(log, std::ios::app) << "the beginning";
    fs::resize_file(log, (8 << 20) + 1);
  }
  for (const auto& log : logs) {
    const std::string old = log.string() + ".old";
    EXPECT_TRUE(eventually([&] { return fs::exists(old) && fs::file_size(log) == 0; })) << log;
    EXPECT_EQ(bytes_of(old).substr(0, 13), "the beginning") << log;
  }
}

TEST_F(VideosDown, ARequestWaitsForAModelThatHangsAFewSecondsAtMost) {
  const auto videos = serve();
  const std::string stops = create(*videos, "stops");
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_of(stops) / "begun"); }));
  const auto begin = steady_clock::now();
  const auto e = error_of([&] { create(*videos, "x"); });
  EXPECT_LT(steady_clock::now() - begin, seconds(10));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->status, 503);
  EXPECT_EQ(e->code, "model_starts");
  EXPECT_EQ(e->headers, (web::Headers{{"Retry-After", "5"}}));
  const auto again = steady_clock::now();
  EXPECT_EQ(refusal([&] { create(*videos, "x"); }), "503 model_starts");
  EXPECT_LT(steady_clock::now() - again, seconds(1)) << "it is known by now";
  end_process("m");
  EXPECT_TRUE(becomes(*videos, stops, "completed"));
}

TEST_F(VideosDown, AModelThatCannotStartAgainIsTriedLaterAndLater) {
  settings_.models.push_back({.name = "other", .pipeline = folder_ / "b"});
  const auto videos = serve();
  std::ofstream(of_model("m") / "fails_loading") << "x";
  const auto begin = steady_clock::now();
  end_process("m");
  ASSERT_TRUE(eventually([&] { return starts("m") == 3; }));  // at once, and a second later
  fs::remove(of_model("m") / "fails_loading");
  const json health = videos->health();
  EXPECT_EQ(health.at("status"), "model_down");
  EXPECT_EQ(health.at("models").at(0).at("id"), "m");
  EXPECT_EQ(health.at("models").size(), 1U);
  EXPECT_TRUE(becomes(*videos, create_of(*videos, "other", "x"), "completed")) << "by a model that is up";
  EXPECT_TRUE(eventually([&] { return videos->health().at("status") == "ok"; }));
  EXPECT_GE(steady_clock::now() - begin, std::chrono::milliseconds(2900)) << "1 s and 2 s";
  EXPECT_EQ(starts("m"), 4);
}

TEST_F(VideosDown, AProcessThatWasStartedAgainMayEndByItself) {
  const auto videos = serve();
  end_process("m");
  ASSERT_TRUE(eventually([&] { return starts("m") == 2 && videos->health().at("status") == "ok"; }));
  EXPECT_FALSE(fs::exists(of_model("m") / "ended"));
  videos->stop();
  EXPECT_TRUE(fs::exists(of_model("m") / "ended"));
}

TEST_F(VideosDown, AViewerIsToldOfTheEndWithoutTheLock) {
  const auto videos = serve();
  std::atomic<int> told{0};
  videos->begin_live(
      {{"prompt", "dies"}},
      [&](const std::string&, const json& message) {
        static_cast<void>(videos->health());  // which takes the lock
        told += message.contains("failed") ? 1 : 0;
      },
      [](const std::string&, int64_t) {});
  EXPECT_TRUE(eventually([&] { return told.load() == 1; }));
  EXPECT_TRUE(becomes(*videos, create(*videos, "x"), "completed"));
}

TEST_F(VideosDown, TheLogTellsEachVideoAndProcessWithoutPrompts) {
  core::log_info("a line, so that the log has begun");
  std::string made, failed;
  {
    const auto file = core::or_throw(core::LogFile::open(folder_ / "log"));
    const auto videos = serve();
    made = create(*videos, "a secret wish");
    failed = create(*videos, "fails");
    ASSERT_TRUE(becomes(*videos, failed, "failed"));
    end_process("m");
    ASSERT_TRUE(eventually([&] { return starts("m") == 2 && videos->health().at("status") == "ok"; }));
  }
  const std::string log = bytes_of(folder_ / "log");
  EXPECT_THAT(log, AllOf(HasSubstr("video begins: id=" + made + " model=m start=1"),
                         HasSubstr("video is completed: id=" + made + " model=m seconds="),
                         HasSubstr("video fails: id=" + failed + " model=m code=generation_failed seconds="),
                         HasSubstr("reason=no memory is left"), HasSubstr("it was ended by signal 9"),
                         Not(HasSubstr("secret"))));
  settings_.log_prompts = true;
  {
    const auto file = core::or_throw(core::LogFile::open(folder_ / "with_prompts"));
    const auto videos = serve();
    ASSERT_TRUE(becomes(*videos, create(*videos, "a known\nwish"), "completed"));
  }
  EXPECT_THAT(bytes_of(folder_ / "with_prompts"), HasSubstr(R"( start=1 prompt="a known\nwish")"));
  const std::string started = "model 'm': process ";
  const size_t first = log.find(started);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(log.find(started, first + 1), std::string::npos) << log;
}

}  // namespace videos_down_test
}  // namespace kinora::serve
