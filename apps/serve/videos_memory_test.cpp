// Admission by memory, and the end of a server and of its models. A model of these tests has 1000 bytes of weights, and
// a video needs 100 a frame.
#include "apps/serve/videos_testing.hpp"
#include "core/base/quantity.hpp"

namespace kinora::serve {
namespace videos_memory_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class VideosMemory : public VideosTest {
 protected:
  void serve_models(const std::vector<std::string>& names) {
    settings_.models.clear();
    for (const auto& name : names)
      settings_.models.push_back({.name = name, .pipeline = folder_ / "a run file"});
  }
  static std::string create(Videos& videos, const std::string& model, const std::string& prompt, int frames) {
    return videos.create({{"model", model}, {"prompt", prompt}, {"num_frames", frames}}, {}, "").at("id");
  }
};

TEST_F(VideosMemory, WhatDoesNotFitNowWaitsAndWhatNeverFitsIsRefused) {
  serve_models({"a", "b", "c"});
  settings_.memory = 4000;
  const auto videos = serve();
  const auto e = error_of([&] { create(*videos, "a", "x", 11); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->status, 400);
  EXPECT_EQ(e->code, "does_not_fit");
  for (const uint64_t bytes : {1100, 3000, 4000}) EXPECT_THAT(e->what(), HasSubstr(core::format_size(bytes)));
  const std::string runs = create(*videos, "a", "waits", 2), large = create(*videos, "b", "x", 10),
                    small = create(*videos, "c", "x", 1);
  ASSERT_TRUE(becomes(*videos, runs, "in_progress"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // the keeper looks once a second
  EXPECT_EQ(status_of(*videos, large), "queued");
  EXPECT_EQ(status_of(*videos, small), "queued") << "the large one came first";
  const std::string other = create(*videos, "b", "x", 10);
  videos->remove(large);
  videos->remove(other);
  EXPECT_TRUE(becomes(*videos, small, "completed"));
  const std::string again = create(*videos, "b", "x", 10);
  EXPECT_EQ(status_of(*videos, again), "queued");
  videos->remove(runs);
  EXPECT_TRUE(becomes(*videos, again, "completed"));
}

TEST_F(VideosMemory, ALiveSessionHasItsShare) {
  serve_models({"a", "b"});
  settings_.memory = 2800;
  const auto videos = serve();
  const auto begin = [&](int frames) {
    return videos->begin_live(
        {{"model", "a"}, {"prompt", "long"}, {"num_frames", frames}}, [](const std::string&, const json&) {},
        [](const std::string&, int64_t) {});
  };
  EXPECT_EQ(refusal([&] { begin(9); }), "400 does_not_fit");
  const std::string session = begin(8), waits = create(*videos, "b", "x", 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(videos->is_idle());
  EXPECT_EQ(status_of(*videos, waits), "queued");
  videos->stop_live(session);
  EXPECT_TRUE(becomes(*videos, waits, "completed"));
}

TEST_F(VideosMemory, ModelsThatDoNotFitAreNotServed) {
  serve_models({"a", "b"});
  settings_.memory = 1999;
  Videos videos(settings_, fs::read_symlink("/proc/self/exe"));
  try {
    videos.ready([] { return false; });
    ADD_FAILURE() << "two models of 1000 bytes in 1999";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr(core::format_size(2000)));
  }
}

TEST_F(VideosMemory, AVideoThatNoLongerFitsFails) {
  auto videos = serve();
  const std::string runs = create(*videos, "m", "waits", 8), large = create(*videos, "m", "x", 9);
  videos.reset();
  settings_.memory = 1800;
  videos = serve();
  ASSERT_TRUE(becomes(*videos, runs, "in_progress"));
  EXPECT_EQ(status_of(*videos, large), "queued");
  videos->remove(runs);
  ASSERT_TRUE(becomes(*videos, large, "failed"));
  EXPECT_EQ(videos->get(large).at("error").at("code"), "does_not_fit");
}

TEST_F(VideosMemory, VideosOfAModelThatIsGoneFail) {
  serve_models({"m", "n"});
  auto videos = serve();
  const std::string runs = create(*videos, "n", "waits", 8), queued = create(*videos, "n", "x", 8),
                    stays = create(*videos, "m", "waits", 8);
  videos.reset();
  serve_models({"m"});
  videos = serve();
  for (const auto& id : {runs, queued}) {
    EXPECT_EQ(status_of(*videos, id), "failed");
    EXPECT_EQ(videos->get(id).at("error").at("code"), "model_not_found");
  }
  EXPECT_TRUE(becomes(*videos, stays, "in_progress"));
}

TEST_F(VideosMemory, ADrainLetsTheRunningVideoEndAndKeepsTheRest) {
  auto videos = serve();
  const std::string runs = create(*videos, "m", "waits", 8), queued = create(*videos, "m", "x", 8);
  videos->drain();
  EXPECT_EQ(refusal([&] { create(*videos, "m", "y", 8); }), "503 server_ends");
  EXPECT_FALSE(videos->is_idle());
  std::ofstream(folder_of(runs) / "go") << "x";
  ASSERT_TRUE(becomes(*videos, runs, "completed"));
  EXPECT_TRUE(eventually([&] { return videos->is_idle(); }));
  EXPECT_EQ(status_of(*videos, queued), "queued");
  videos.reset();
  videos = serve();
  EXPECT_TRUE(becomes(*videos, queued, "completed"));
}

TEST_F(VideosMemory, TheLogOfAModelIsBounded) {
  const fs::path log = folder_ / "models/m/process.log";
  fs::create_directories(log.parent_path());
  std::ofstream(log) << std::string(9 << 20, 'x');
  const auto videos = serve();
  EXPECT_TRUE(eventually([&] { return fs::file_size(log) < 1000; }));
  EXPECT_EQ(fs::file_size(log.string() + ".old"), size_t{9} << 20);
  EXPECT_TRUE(becomes(*videos, create(*videos, "m", "x", 1), "completed"));
}

TEST_F(VideosMemory, ThumbnailsAreThereFromTheFirstChunkOn) {
  const auto videos = serve();
  const std::string runs = create(*videos, "m", "waits", 8), queued = create(*videos, "m", "x", 8);
  ASSERT_TRUE(eventually([&] { return videos->get(runs).at("progress") == 50; }));
  EXPECT_EQ(bytes_of(videos->content(runs, "thumbnail.webp")), "thumbnail");
  EXPECT_EQ(refusal([&] { videos->content(runs, "spritesheet.jpg"); }), "409 not_ready");
  EXPECT_EQ(refusal([&] { videos->content(queued, "thumbnail.webp"); }), "409 not_ready");
  std::ofstream(folder_of(runs) / "go") << "x";
  ASSERT_TRUE(becomes(*videos, runs, "completed"));
  EXPECT_EQ(bytes_of(videos->content(runs, "spritesheet.jpg")), "sheet");
  const auto stays = [] { return false; };
  EXPECT_TRUE(videos->wait(queued, stays));
  EXPECT_EQ(status_of(*videos, queued), "completed");
  const std::string fails = create(*videos, "m", "fails", 8);
  const auto e = error_of([&] { videos->wait(fails, stays); });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->code, "generation_failed");
  EXPECT_EQ(e->headers, (web::Headers{{"x-should-retry", "false"}}));
}

TEST_F(VideosMemory, TimesAreCounted) {
  const auto videos = serve();
  const std::string runs = create(*videos, "m", "waits", 8), next = create(*videos, "m", "x", 8);
  videos->remove(runs);
  ASSERT_TRUE(becomes(*videos, next, "completed"));
  const std::string text = videos->metrics();
  for (const char* line : {"queue_seconds_count 2", "first_frame_seconds_sum 0.2", "chunk_seconds_count 2",
                           "step_seconds_count 1", "realtime_factor_count 1", "cancel_seconds_count 1",
                           "cancelled_total 1", "denoise_seconds_count 0"})
    EXPECT_THAT(text, HasSubstr(std::string("kinora_serve_") + line + "\n"));
}

}  // namespace videos_memory_test
}  // namespace kinora::serve
