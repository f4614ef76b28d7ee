#include "apps/serve/videos.hpp"

#include <atomic>
#include <csignal>
#include <set>

#include "apps/serve/videos_testing.hpp"

namespace kinora::serve {
namespace videos_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(VideosTest, MakesAndKeepsAVideo) {
  const auto videos = serve();
  const json made = videos->create({{"prompt", "a"}, {"seed", 7}}, {}, "");
  const std::string id = made.at("id");
  EXPECT_THAT(id, StartsWith("video_"));
  EXPECT_EQ(made.at("object"), "video");
  EXPECT_EQ(made.at("model"), "m");
  EXPECT_EQ(made.at("prompt"), "a");
  EXPECT_EQ(made.at("seed"), 7);
  EXPECT_EQ(made.at("size"), "64x48");
  EXPECT_EQ(made.at("seconds"), "1");
  EXPECT_TRUE(made.at("completed_at").is_null());
  EXPECT_TRUE(made.at("error").is_null());
  ASSERT_TRUE(becomes(*videos, id, "completed"));
  const json now = videos->get(id);
  EXPECT_EQ(now.at("progress"), 100);
  EXPECT_EQ(now.at("seconds"), "2");  // as it was made
  EXPECT_GE(now.at("completed_at"), now.at("created_at"));
  EXPECT_EQ(now.at("expires_at"), now.at("completed_at").get<int64_t>() + settings_.keep);
  EXPECT_EQ(bytes_of(videos->content(id)), "video " + id + " of a");
  Videos::Viewer viewer{.id = id};
  EXPECT_EQ(videos->next(viewer), "video " + id + " of a");
  EXPECT_EQ(videos->next(viewer), "");
  EXPECT_EQ(videos->list("", 20, false).at("data"), json::array({now}));
  EXPECT_EQ(videos->remove(id), (json{{"id", id}, {"object", "video.deleted"}, {"deleted", true}}));
  EXPECT_FALSE(fs::exists(folder_of(id)));
  EXPECT_THAT(videos->metrics(), HasSubstr("kinora_serve_completed_total 1\n"));
}

TEST_F(VideosTest, KeepTheirLoraAlsoInARemixAndAfterARestart) {
  const json toon{{"name", "toon"}, {"scale", 0.7}};
  std::string id, remixed;
  {
    const auto videos = serve();
    EXPECT_EQ(videos->models().at("data").at(0).at("loras"), (json{"toon", "noir"}));
    const auto e = error_of([&] { videos->create({{"prompt", "a"}, {"lora", {{"name", "none"}}}}, {}, ""); });
    ASSERT_TRUE(e);
    EXPECT_EQ(e->status, 400);
    EXPECT_EQ(e->param, "lora");
    EXPECT_THAT(e->what(), HasSubstr("toon, noir"));
    id = videos->create({{"prompt", "a"}, {"lora", toon}}, {}, "").at("id");
    ASSERT_TRUE(becomes(*videos, id, "completed"));
    remixed = videos->remix(id, "waits", "").at("id");
    EXPECT_EQ(videos->get(remixed).at("lora"), toon);
    ASSERT_TRUE(becomes(*videos, remixed, "in_progress"));
  }
  const auto videos = serve();
  EXPECT_EQ(videos->get(id).at("lora"), toon);
  ASSERT_TRUE(becomes(*videos, remixed, "in_progress"));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder_of(remixed) / "fields"); }));
  std::ofstream(folder_of(remixed) / "go") << "x";
  ASSERT_TRUE(becomes(*videos, remixed, "completed"));
  EXPECT_EQ(json::parse(bytes_of(folder_of(remixed) / "fields")).at("lora"), toon);
}

TEST_F(VideosTest, StartsTheRanksOfAModelTogether) {
  settings_.models[0].ranks = 2;
  const auto videos = serve();
  const fs::path out = folder_ / "models/m";
  const auto arguments = json::parse(bytes_of(out / "arguments")).get<std::vector<std::string>>();
  ASSERT_GT(arguments.size(), 10U);
  EXPECT_THAT(std::vector(arguments.begin() + 1, arguments.begin() + 10),
              testing::ElementsAre("launch", "-n", "2", "--logs", (out / "ranks").string(), "--timeout",
                                   testing::_, "--", "generate"));
  EXPECT_TRUE(becomes(*videos, create(*videos, "a"), "completed"));
}

TEST_F(VideosTest, RefusesMoreSecondsThanTheServersBeforeItAsksTheModel) {
  settings_.seconds = 4;
  const auto videos = serve();
  const auto e = error_of([&] { videos->create({{"prompt", "refused"}, {"seconds", 4.5}}, {}, ""); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->code, "too_long");
  EXPECT_EQ(e->param, "seconds");
  EXPECT_THAT(e->what(), HasSubstr("this server makes at most 4"));
}

TEST_F(VideosTest, ModelsSayWhatTheyTakeAndMake) {
  const json asked{{"shots", json::array({R"({"prompt":"a"})"})}};
  for (const bool takes : {true, false}) {
    fs::create_directories(folder_ / "models/m");
    if (!takes) std::ofstream(folder_ / "models/m/no_live") << "x";
    const auto videos = serve();
    const json model = videos->models().at("data").at(0);
    EXPECT_EQ(model.at("shots"), takes);
    EXPECT_EQ(model.at("live"), takes);
    EXPECT_EQ(model.at("input_modalities"), json::array({"text", "image"}));
    EXPECT_EQ(model.at("output_modalities"), json::array({"video"}));
    const auto e = error_of([&] { videos->create(asked, {}, ""); });
    EXPECT_EQ(e.has_value(), !takes);
    if (e) {
      EXPECT_EQ(e->param, "shots");
    }
  }
}

TEST_F(VideosTest, RunFilesReadTheFinishedJobsOfTheirOwnFolder) {
  using testing::Contains;
  settings_.models[0].job = "film";
  settings_.models[0].set = {"steps=3", "film.frames=9"};
  settings_.models.push_back({.name = "n", .pipeline = folder_ / "a pipeline", .set = {"steps=3"}});
  fs::create_directories(folder_ / "a pipeline");
  const auto videos = serve();
  const auto arguments_of = [&](const std::string& name) {
    const auto file = bytes_of(folder_ / "models" / name / "arguments");
    return json::parse(file).get<std::vector<std::string>>();
  };
  const auto of_file = arguments_of("m"), of_folder = arguments_of("n");
  EXPECT_THAT(of_file, testing::Not(Contains("--out")));
  EXPECT_THAT(of_file, Contains("--needs-finished"));
  EXPECT_THAT(of_file, Contains("film.steps=3"));
  EXPECT_THAT(of_file, Contains("film.frames=9"));
  EXPECT_THAT(of_folder, Contains("--out"));
  EXPECT_THAT(of_folder, testing::Not(Contains("--needs-finished")));
  EXPECT_THAT(of_folder, Contains("steps=3"));
}

TEST_F(VideosTest, DeletesWhatIsQueuedRunningOrDone) {
  const auto videos = serve();
  const std::string runs = create(*videos, "waits"), waits = create(*videos, "b");
  ASSERT_TRUE(eventually([&] { return videos->get(runs).at("progress") == 50; }));
  EXPECT_EQ(status_of(*videos, runs), "in_progress");
  EXPECT_EQ(status_of(*videos, waits), "queued");
  EXPECT_EQ(videos->get(waits).at("progress"), 0);
  const auto e = error_of([&] { videos->content(runs); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->status, 409);
  EXPECT_EQ(e->code, "not_ready");
  EXPECT_EQ(e->headers, (web::Headers{{"x-should-retry", "false"}}));
  Videos::Viewer of_runs{.id = runs}, of_waits{.id = waits};
  EXPECT_EQ(videos->next(of_runs), "a part");
  EXPECT_EQ(videos->next(of_runs), std::nullopt);
  EXPECT_EQ(videos->next(of_waits), std::nullopt);

  for (auto* viewer : {&of_waits, &of_runs}) {
    const std::string id = viewer->id;
    videos->remove(id);
    EXPECT_EQ(refusal([&] { videos->get(id); }), "404 not_found");
    EXPECT_EQ(refusal([&] { videos->content(id); }), "404 not_found");
    EXPECT_EQ(refusal([&] { videos->remove(id); }), "404 not_found");
    EXPECT_EQ(refusal([&] { videos->next(*viewer); }), "404 not_found");
  }
  EXPECT_FALSE(fs::exists(folder_of(waits)));
  EXPECT_TRUE(eventually([&] { return !fs::exists(folder_of(runs)); }));
  EXPECT_EQ(videos->health(),
            (json{{"status", "ok"}, {"queued", 0}, {"in_progress", 0}, {"live_sessions", 0}}));
  EXPECT_THAT(videos->metrics(), HasSubstr("kinora_serve_cancelled_total 1\n"));
  EXPECT_TRUE(becomes(*videos, create(*videos, "c"), "completed"));
}

TEST_F(VideosTest, AViewerSeesTheGrowingVideoToItsEnd) {
  const auto videos = serve();
  const std::string id = create(*videos, "waits");
  Videos::Viewer early{.id = id};
  ASSERT_TRUE(eventually([&] { return videos->next(early) == "a part"; }));
  std::ofstream(folder_of(id) / "go") << "x";
  ASSERT_TRUE(becomes(*videos, id, "completed"));  // its file is another one by now
  EXPECT_EQ(videos->next(early), " and the rest");
  EXPECT_EQ(videos->next(early), "");

  const std::string again = create(*videos, "waits");
  Videos::Viewer cut{.id = again};
  ASSERT_TRUE(eventually([&] { return videos->next(cut) == "a part"; }));
  std::ofstream(folder_of(again) / "live.mp4") << "a";  // as a second process begins it
  EXPECT_EQ(refusal([&] { videos->next(cut); }), "503 begins_again");
}

TEST_F(VideosTest, BeginsAgainWhatAProcessDiedOf) {
  const auto videos = serve();
  const std::string once = create(*videos, "dies_once"), always = create(*videos, "dies"),
                    loading = create(*videos, "dies_loading"), fails = create(*videos, "fails"),
                    last = create(*videos, "last");
  ASSERT_TRUE(becomes(*videos, last, "completed"));
  EXPECT_EQ(status_of(*videos, once), "completed");
  EXPECT_EQ(status_of(*videos, loading), "completed");
  EXPECT_EQ(bytes_of(videos->content(loading)), "video " + loading + " of dies_loading");
  EXPECT_EQ(status_of(*videos, always), "failed");
  EXPECT_EQ(videos->get(always).at("error").at("code"), "model_failed");
  EXPECT_EQ(videos->get(fails).at("error"),
            (json{{"code", "generation_failed"}, {"message", "no memory is left"}}));
  EXPECT_EQ(refusal([&] { videos->content(fails); }), "409 failed");
  Videos::Viewer viewer{.id = fails};
  EXPECT_EQ(refusal([&] { videos->next(viewer); }), "409 failed");
  EXPECT_THAT(videos->metrics(), HasSubstr("kinora_serve_failed_total 2\n"));
}

TEST_F(VideosTest, RefusesWhatTheModelRefusesAndLeavesNothing) {
  const auto videos = serve();
  const auto e = error_of([&] { create(*videos, "refused"); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->status, 400);
  EXPECT_EQ(e->param, "steps");
  EXPECT_STREQ(e->what(), "steps: expected fewer");
  EXPECT_EQ(refusal([&] { create(*videos, "check_dies"); }), "503 model_starts");
  EXPECT_EQ(refusal([&] {
              videos->create({{"prompt", "a"}, {"model", "n"}}, {}, "");
            }),
            "404 model_not_found");
  EXPECT_ANY_THROW(videos->create({{"prompt", "a"}}, {{"image", folder_ / "none"}}, ""));
  EXPECT_TRUE(fs::is_empty(folder_ / "videos"));
  EXPECT_EQ(videos->list("", 20, false).at("data"), json::array());
  EXPECT_TRUE(eventually([&] { return videos->health().at("status") == "ok"; }));
}

TEST_F(VideosTest, AFullQueueSaysWhenToComeAgain) {
  settings_.max_queue = 2;
  const auto videos = serve();
  const std::string runs = create(*videos, "waits"), first = create(*videos, "a", "key");
  std::vector<std::thread> clients;
  std::atomic<int> accepted{0}, refused{0};
  for (int i = 0; i < 12; ++i)
    clients.emplace_back([&] { ++(refusal([&] { create(*videos, "b"); }).empty() ? accepted : refused); });
  for (auto& client : clients) client.join();
  EXPECT_EQ(accepted.load(), 1);
  EXPECT_EQ(refused.load(), 11);
  const auto e = error_of([&] { create(*videos, "c"); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->status, 429);
  EXPECT_EQ(e->code, "queue_full");
  ASSERT_EQ(e->headers.size(), 2U);
  EXPECT_EQ(e->headers[0].first, "Retry-After");
  EXPECT_GT(std::stoi(e->headers[0].second), 0);
  EXPECT_EQ(e->headers[1], std::pair(std::string("x-should-retry"), std::string("true")));
  EXPECT_EQ(create(*videos, "a", "key"), first);  // accepted before: no 429
  videos->remove(first);
  EXPECT_EQ(refusal([&] { create(*videos, "d"); }), "");
  EXPECT_EQ(status_of(*videos, runs), "in_progress");
}

TEST_F(VideosTest, RepeatsOfAKeyAreOneVideo) {
  const auto videos = serve();
  std::vector<std::string> ids(16);
  std::vector<std::thread> clients;
  for (auto& id : ids) clients.emplace_back([&] { id = create(*videos, "waits", "same"); });
  for (auto& client : clients) client.join();
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1U);
  EXPECT_EQ(videos->list("", 20, false).at("data").size(), 1U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "videos"), {}), 1);
  EXPECT_NE(create(*videos, "a", "other"), ids[0]);
}

TEST_F(VideosTest, AKeyIsOfOneRequest) {
  std::ofstream(folder_ / "one") << "one";
  std::ofstream(folder_ / "two") << "two";
  auto videos = serve();
  const auto make = [&](const std::string& prompt, const std::string& file) -> std::string {
    return videos->create({{"prompt", prompt}}, {{"image", folder_ / file}}, "k").at("id");
  };
  const std::string id = make("a", "one");
  EXPECT_EQ(make("a", "one"), id);
  EXPECT_EQ(refusal([&] { make("b", "one"); }), "409 idempotency_mismatch");
  EXPECT_EQ(refusal([&] { make("a", "two"); }), "409 idempotency_mismatch");
  EXPECT_EQ(refusal([&] { create(*videos, "a", "k"); }), "409 idempotency_mismatch");
  ASSERT_TRUE(becomes(*videos, id, "completed"));
  EXPECT_EQ(refusal([&] { videos->remix(id, "a", "k"); }), "409 idempotency_mismatch");
  const json remixed = videos->remix(id, "b", "other");
  EXPECT_EQ(videos->remix(id, "b", "other").at("id"), remixed.at("id"));
  videos.reset();
  videos = serve();
  EXPECT_EQ(make("a", "one"), id);
  EXPECT_EQ(refusal([&] { make("b", "one"); }), "409 idempotency_mismatch");
}

TEST_F(VideosTest, WhatOneRequestAwaitsEndsWithTheServer) {
  auto videos = serve();
  const auto await = [&](const std::string& prompt) -> std::string {
    return videos->create({{"prompt", prompt}, {"awaited", true}}, {}, "").at("id");
  };
  const std::string done = await("a");
  ASSERT_TRUE(becomes(*videos, done, "completed"));
  const std::string runs = await("waits"), waits = await("b"), kept = create(*videos, "c");
  ASSERT_TRUE(becomes(*videos, runs, "in_progress"));
  videos.reset();
  videos = serve();
  for (const auto& id : {runs, waits}) {
    EXPECT_EQ(refusal([&] { videos->get(id); }), "404 not_found");
    EXPECT_FALSE(fs::exists(folder_of(id)));
  }
  EXPECT_EQ(status_of(*videos, done), "completed");
  EXPECT_TRUE(becomes(*videos, kept, "completed"));
}

TEST_F(VideosTest, WhatItWritesIsForItsUserAlone) {
  const auto open = fs::perms(0755);
  fs::permissions(folder_, open);
  for (const char* part : {"videos", "models"}) {
    fs::create_directories(folder_ / part);
    fs::permissions(folder_ / part, open);
  }
  std::ofstream(folder_ / "videos.sqlite").close();
  fs::permissions(folder_ / "videos.sqlite", fs::perms(0644));
  const auto videos = serve();
  ASSERT_TRUE(becomes(*videos, create(*videos, "a"), "completed"));
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    const auto others = entry.status().permissions() & (fs::perms::group_all | fs::perms::others_all);
    EXPECT_EQ(others, fs::perms::none) << entry.path();
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_GT(files, 5);
}

TEST_F(VideosTest, ItsHealthCountsLiveSessions) {
  const auto videos = serve();
  videos->begin_live(
      {{"prompt", "long"}}, [](const std::string&, const json&) {}, [](const std::string&, int64_t) {});
  EXPECT_EQ(videos->health().at("live_sessions"), 1);
  EXPECT_EQ(videos->health().at("in_progress"), 0);
}

TEST_F(VideosTest, ARemixHasItsOwnCopyOfTheFiles) {
  const auto videos = serve();
  std::ofstream(folder_ / "picture") << "picture";
  const std::string from =
      videos->create({{"prompt", "a"}, {"seed", 5}}, {{"image", folder_ / "picture"}}, "").at("id");
  ASSERT_TRUE(becomes(*videos, from, "completed"));
  const std::string waits = create(*videos, "waits");
  EXPECT_EQ(refusal([&] { videos->remix(waits, "b", ""); }), "409 not_ready");
  EXPECT_EQ(refusal([&] { videos->remix("video_none", "b", ""); }), "404 not_found");
  const json made = videos->remix(from, "b", "");
  EXPECT_EQ(made.at("remixed_from_video_id"), from);
  EXPECT_EQ(made.at("prompt"), "b");
  EXPECT_EQ(made.at("seed"), 5);
  videos->remove(from);
  videos->remove(waits);
  const std::string id = made.at("id");
  ASSERT_TRUE(becomes(*videos, id, "completed"));
  EXPECT_EQ(bytes_of(folder_of(id) / "given_image"), "picture");
}

TEST_F(VideosTest, ARemixOfShotsHasOnePrompt) {
  const auto videos = serve();
  const std::string from = videos->create({{"shots", json::array({R"({"prompt":"a"})"})}}, {}, "").at("id");
  ASSERT_TRUE(becomes(*videos, from, "completed"));
  const json made = videos->remix(from, "b", "");
  EXPECT_EQ(made.at("prompt"), "b");
  EXPECT_EQ(made.at("seconds"), "2");  // as long as the other
}

TEST_F(VideosTest, GoesOnWithItsQueueAfterARestart) {
  fs::create_directories(folder_ / "videos/video_left");
  auto videos = serve();
  EXPECT_FALSE(fs::exists(folder_ / "videos/video_left"));
  EXPECT_THROW(serve(), Error);  // the folder is taken
  const std::string first = create(*videos, "waits"), second = create(*videos, "b"),
                    gone = create(*videos, "c");
  videos->remove(gone);
  for (int i = 0; i < 4; ++i) {  // an end of the server is no fault of the video
    videos.reset();
    videos = serve();
    ASSERT_TRUE(becomes(*videos, first, "in_progress")) << i;
    EXPECT_EQ(status_of(*videos, second), "queued");
  }
  std::ofstream(folder_of(first) / "go") << "x";
  EXPECT_TRUE(becomes(*videos, second, "completed"));
  EXPECT_EQ(status_of(*videos, first), "completed");
  EXPECT_EQ(refusal([&] { videos->get(gone); }), "404 not_found");
  videos.reset();
  videos = serve();
  EXPECT_EQ(bytes_of(videos->content(second)), "video " + second + " of b");
  EXPECT_EQ(videos->list("", 20, true).at("data").size(), 2U);
}

TEST_F(VideosTest, DropsWhatHasExpired) {
  settings_.keep = 1;
  const auto videos = serve();
  const std::string id = create(*videos, "a"), failed = create(*videos, "fails"),
                    runs = create(*videos, "waits");
  for (const auto& one : {id, failed})
    EXPECT_TRUE(eventually([&] { return refusal([&] { videos->get(one); }) == "404 not_found"; }));
  EXPECT_FALSE(fs::exists(folder_of(id)));
  EXPECT_EQ(status_of(*videos, runs), "in_progress");
}

TEST_F(VideosTest, AModelThatDoesNotReadHoldsUpNoOneElse) {
  const auto videos = serve();
  const std::string stops = create(*videos, "stops");
  std::vector<std::thread> clients;
  std::atomic<int> accepted{0};
  for (int i = 0; i < 16; ++i)
    clients.emplace_back([&] {
      if (!create(*videos, std::string(60'000, 'x')).empty()) ++accepted;
    });
  const auto folders = [&] { return std::distance(fs::directory_iterator(folder_ / "videos"), {}); };
  EXPECT_TRUE(eventually([&] { return folders() == 17; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // more than its socket holds is sent by now
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of(*videos, stops), "in_progress");
  EXPECT_EQ(videos->health().at("in_progress"), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  kill(std::stoi(bytes_of(folder_ / "models/m/pid")), SIGKILL);
  for (auto& client : clients) client.join();
  EXPECT_EQ(accepted.load(), 16) << "by the process that starts again";
  EXPECT_TRUE(becomes(*videos, stops, "completed"));
}

}  // namespace videos_test
}  // namespace kinora::serve
