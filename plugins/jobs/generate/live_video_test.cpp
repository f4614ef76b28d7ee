// Live sessions in the model's process: what their viewer does, and that the video is the one of its shots.
#include "plugins/jobs/generate/live_video.hpp"

#include <atomic>
#include <cstdlib>
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/jobs/generate/past_sessions.hpp"
#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::live_video {
namespace {

using inference::in_chunks;
using inference::Session;
using testing::ElementsAre;
using testing::HasSubstr;

// "init", then the bytes of the frames as they are.
class PlainFragments : public VideoFragments {
 public:
  class Plain : public Stream {
   public:
    Plain(int64_t bytes, Sink sink) : bytes_(bytes), sink_(std::move(sink)) {}
    void add(const uint8_t* frames, int64_t count) override {
      const std::string begin = "init";
      if (std::exchange(is_new_, false))
        sink_({reinterpret_cast<const uint8_t*>(begin.data()), begin.size()}, Kind::init);
      sink_({frames, static_cast<size_t>(count * bytes_)}, Kind::fragment);
    }
    void finish() override {}
    const std::string& mime() const override { return mime_; }

   private:
    const int64_t bytes_;
    const Sink sink_;
    bool is_new_ = true;
    const std::string mime_ = "video/plain";
  };
  std::unique_ptr<Stream> open(const Form& form, Sink sink) const override {
    return std::make_unique<Plain>(form.height * form.width * 3, std::move(sink));
  }
  void remux(const fs::path&, const fs::path&, const std::string&) const override {}
};

class LiveVideoTest : public testing::Test {
 protected:
  LiveVideoTest()
      : small_(inference::kDeepDit, 2, inference::kStreaming),
        parallel_(test::runtime(), inference::PlainPipeline::plan(*small_.run)),
        pipeline_(test::runtime(), spec(small_), parallel_) {
    std::string name = (fs::temp_directory_path() / "kinora-live-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~LiveVideoTest() override { fs::remove_all(folder_); }

  static inference::PipelineSpec spec(inference::Small& small) {
    small.shots = {Frames::Pin::own, 8};
    return small.spec(in_chunks(1, 3, 1), kChunks);
  }
  static Request request() { return {.seed = 2, .prompt = "red sea"}; }
  // Makes a session's video. A viewer takes all at once, and does what after() says after each chunk.
  json shown(const std::function<void(const json& chunk)>& after, double fps = 1000) {
    return shown({std::make_unique<Session>(pipeline_, request())}, "a", after, fps);
  }
  json shown(PastSessions::Live live, const std::string& id,
             const std::function<void(const json& chunk)>& after, double fps = 1000) {
    told_.clear();
    bytes_.clear();
    LiveVideo video({id, folder_, request().prompt, live.past}, *live.session, fragments_, {.fps = fps},
                    mail_, [&](const json& message) {
                      told_.push_back(message);
                      if (!message.contains("file")) return;
                      steer({{"taken", message.at("number")}}, id);
                      const auto bytes = read_bytes(message.at("file").get<std::string>());
                      bytes_.emplace_back(bytes.begin(), bytes.end());
                      if (message.at("chunk").at("kind") == "media") after(message.at("chunk"));
                    });
    json done = video.run();
    latent_ = live.session->made().latent;
    past_.keep(id, *live.session, video.past());
    return done;
  }
  void steer(json message, const std::string& id = "a") {
    message["steer"] = id;
    mail_.push(std::move(message));
  }
  // The bytes of each chunk of a video that is made at once.
  std::vector<std::string> made(const Request& of) {
    Session session(pipeline_, of);
    std::vector<std::string> out;
    while (const auto frames = session.next_chunk()) {
      const at::Tensor all = frames->contiguous();
      out.emplace_back(reinterpret_cast<const char*>(all.data_ptr<uint8_t>()), all.numel());
    }
    made_latent_ = session.made().latent;
    return out;
  }
  Request of_shots(const json& shots) const {
    Request out = request();
    for (const auto& shot : shots) out.shots.push_back(shot.dump());
    return out;
  }
  std::vector<std::string> chunks() const { return {bytes_.begin() + 1, bytes_.end()}; }
  std::vector<json> told(const std::string& what) const {
    std::vector<json> out;
    for (const auto& one : told_)
      if (one.contains(what)) out.push_back(one.at(what));
    return out;
  }

  static constexpr int64_t kChunks = 5;
  inference::Small small_;
  Parallelism parallel_;
  inference::Pipeline pipeline_;
  PlainFragments fragments_;
  fs::path folder_;
  LiveMail mail_;
  PastSessions past_;
  std::vector<json> told_;
  std::vector<std::string> bytes_;   // of each file
  at::Tensor latent_, made_latent_;  // of shown() and of made()
};

TEST_F(LiveVideoTest, GivesTheVideoThatTheSessionMakesAlone) {
  const json done = shown([](const json&) {});
  EXPECT_EQ(bytes_.at(0), "init");
  EXPECT_EQ(chunks(), made(request()));
  const json start = told("start").at(0);
  EXPECT_EQ(start.at("mime"), "video/plain");
  EXPECT_EQ(start.at("chunks"), kChunks);
  EXPECT_EQ(start.at("num_frames"), done.at("num_frames"));
  EXPECT_EQ(done.at("reason"), "completed");
  int64_t frames = 0;
  for (const json& chunk : told("chunk")) {
    if (chunk.at("kind") == "init") continue;
    EXPECT_EQ(chunk.at("first_frame"), frames);
    frames += chunk.at("num_frames").get<int64_t>();
  }
  EXPECT_EQ(done.at("num_frames"), frames);
}

TEST_F(LiveVideoTest, WithAChangedPromptIsTheVideoOfItsShots) {
  const json done = shown([&](const json& chunk) {
    if (chunk.at("generation_chunk_index") != 1) return;
    steer({{"prompt", "sea"}, {"event_id", "one"}});
    steer({{"prompt", "red"}, {"event_id", "other"}}, "another session");
    steer({{"prompt", "blue"}, {"event_id", "two"}});
  });
  const auto all = told("chunk");
  for (size_t i = 1; i < all.size(); ++i) {
    const json begun = i == 3 ? json{"one", "two"} : json::array();  // the first is the init segment
    EXPECT_EQ(all[i].at("started_event_ids"), begun) << i;
    EXPECT_EQ(all[i].at("completed_event_ids"), begun) << i;
  }
  EXPECT_EQ(done.at("shots"), json::parse(R"([{"prompt": "red sea", "chunks": 2, "cut": false},
                                              {"prompt": "blue", "chunks": 3, "cut": false}])"));
  EXPECT_EQ(chunks(), made(of_shots(done.at("shots"))));
  EXPECT_NE(chunks(), made(request())) << "equal videos would prove nothing";
}

TEST_F(LiveVideoTest, WithACutOrASwitchIsTheVideoOfItsShots) {
  at::Tensor plain;
  for (const json& how :
       {json::object(), json{{"cut", true}}, json{{"switch", "recache"}}, json{{"switch", "flush"}},
        json{{"switch", "blend"}, {"blend", 2}}, json{{"cut", true}, {"switch", "recache"}}}) {
    const json done = shown([&](const json& chunk) {
      if (chunk.at("generation_chunk_index") != 2) return;
      json change{{"prompt", "blue"}, {"event_id", "one"}};
      change.update(how);
      steer(change);
    });
    json second{{"prompt", "blue"}, {"chunks", 2}, {"cut", false}};
    second.update(how);
    EXPECT_EQ(done.at("shots").at(1), second);
    EXPECT_EQ(chunks(), made(of_shots(done.at("shots")))) << how;
    EXPECT_LT(inference::apart(latent_, made_latent_), 1e-12) << how;
    if (how.empty()) plain = latent_.clone();
    EXPECT_EQ(at::equal(latent_, plain), how.empty()) << how << ": equal videos would prove nothing";
    const size_t last = how.contains("blend") ? 5 : 4;  // the first message is the init segment
    EXPECT_EQ(told("chunk").at(4).at("started_event_ids"), json::array({"one"})) << how;
    EXPECT_EQ(told("chunk").at(last).at("completed_event_ids"), json::array({"one"})) << how;
  }
}

TEST_F(LiveVideoTest, WithoutKeysAndValuesTakesPlainPromptsAlone) {
  Parallelism parallel(test::runtime(), inference::PlainPipeline::plan(*small_.run));
  inference::Pipeline pipeline(test::runtime(), small_.spec(in_chunks(1), 3, nullptr), parallel);
  const json done = shown({std::make_unique<Session>(pipeline, request())}, "a", [&](const json& chunk) {
    if (chunk.at("generation_chunk_index") != 0) return;
    steer({{"prompt", "sea"}, {"event_id", "one"}});
    steer({{"prompt", "blue"}, {"event_id", "two"}, {"cut", true}});
  });
  past_.forget("a");  // before its pipeline ends
  ASSERT_EQ(told("error").size(), 1U);
  EXPECT_THAT(told("error")[0].at("message"), HasSubstr("a prompt neither cuts nor switches"));
  EXPECT_EQ(told("error")[0].at("event_id"), "two");
  EXPECT_EQ(done.at("shots").at(1).at("prompt"), "sea");
}

TEST_F(LiveVideoTest, IsRewoundAcrossACutAndABlend) {
  bool was_rewound = false;
  const json done = shown([&](const json& chunk) {
    if (chunk.at("generation_chunk_index") == 0 && !was_rewound)
      steer({{"prompt", "blue"}, {"event_id", "one"}, {"cut", true}, {"switch", "recache"}});
    if (chunk.at("generation_chunk_index") == 1 && !was_rewound)
      steer({{"prompt", "sea"}, {"event_id", "two"}, {"switch", "blend"}, {"blend", 3}});
    if (chunk.at("generation_chunk_index") != 3 || std::exchange(was_rewound, true)) return;
    steer({{"rewind", 3}});  // the blend goes on
  });
  const auto want = made(of_shots(done.at("shots")));
  ASSERT_EQ(want.size(), 5U);
  const auto got = chunks();
  ASSERT_EQ(got.size(), 6U);
  EXPECT_EQ(std::vector(got.begin(), got.begin() + 4), std::vector(want.begin(), want.begin() + 4));
  EXPECT_EQ(std::vector(got.begin() + 4, got.end()), std::vector(want.begin() + 3, want.end()));
  EXPECT_LT(inference::apart(latent_, made_latent_), 1e-12);
  std::vector<std::string> completed;
  for (const json& chunk : told("chunk"))
    for (const json& id : chunk.value("completed_event_ids", json::array())) completed.push_back(id);
  EXPECT_THAT(completed, ElementsAre("one", "two")) << "each once";
}

TEST_F(LiveVideoTest, IsRewoundAndGoesAnotherWay) {
  int rewinds = 0;
  const json done = shown([&](const json& chunk) {
    if (chunk.at("generation_chunk_index") != 3 || rewinds++ > 0) return;
    steer({{"rewind", 7}});
    steer({{"rewind", 1}});
    steer({{"prompt", "blue"}, {"event_id", "one"}});
  });
  std::vector<int64_t> numbers;
  for (const json& chunk : told("chunk")) numbers.push_back(chunk.value("generation_chunk_index", -1));
  EXPECT_THAT(numbers, ElementsAre(-1, 0, 1, 2, 3, 1, 2, 3, 4));
  EXPECT_THAT(told("error").at(0).at("message"), HasSubstr("chunk 7 of the session is not finished"));
  auto want = made(of_shots(done.at("shots")));
  ASSERT_EQ(want.size(), 5U);
  const auto got = chunks();
  EXPECT_EQ(std::vector(got.begin() + 4, got.end()), std::vector(want.begin() + 1, want.end()));
  EXPECT_NE(got.at(1), got.at(4));
  EXPECT_EQ(done.at("chunks"), 5);
}

TEST_F(LiveVideoTest, ContinuesAnEndedSessionFromAnEarlierChunk) {
  // The first has the shots 0-1 and, by a cut, 2-4.
  shown([&](const json& chunk) {
    if (chunk.at("generation_chunk_index") == 1)
      steer({{"prompt", "blue"}, {"event_id", "one"}, {"cut", true}});
  });
  const at::Tensor first = latent_;
  for (const auto& [begin, change] : {std::pair{3, ""}, {0, ""}, {1, "sea"}, {3, "sea"}}) {
    const json done = shown(past_.continued("a", begin), "b", [&](const json& chunk) {
      if (*change != '\0' && chunk.at("generation_chunk_index") == begin)
        steer({{"prompt", change}, {"event_id", "two"}, {"switch", "recache"}}, "b");
    });
    const auto want = made(of_shots(done.at("shots")));
    ASSERT_EQ(want.size(), 5U) << begin << change;
    EXPECT_EQ(chunks(), std::vector(want.begin() + begin, want.end())) << begin << change;
    EXPECT_LT(inference::apart(latent_, made_latent_), 1e-12) << begin << change;
    const bool is_other = inference::apart(latent_, first) > 1e-9;
    EXPECT_EQ(is_other, *change != '\0') << begin << change;
    EXPECT_EQ(told("chunk").at(1).at("generation_chunk_index"), begin);
    EXPECT_EQ(done.at("chunks"), 5);
  }
  const auto refusal = [&](const std::string& id, int64_t chunks) {
    return test::refusal([&] { past_.continued(id, chunks); });
  };
  EXPECT_THAT(refusal("a", 6), HasSubstr("chunk 6 of video 000 is not finished"));
  EXPECT_THAT(refusal("none", 1), HasSubstr("session 'none' has made no chunk, or is no longer kept"));
  past_.forget("a");
  EXPECT_THAT(refusal("a", 1), HasSubstr("is no longer kept"));
}

TEST_F(LiveVideoTest, IsTwoMessagesAheadOfItsViewerAndWaitsWhilePaused) {
  std::atomic<int> files{0};
  Session session(pipeline_, request());
  LiveVideo video({"a", folder_, request().prompt}, session, fragments_, {.fps = 1000}, mail_,
                  [&](const json& message) { files += message.contains("file"); });
  json done;
  std::jthread making([&] { done = video.run(); });
  const auto stays = [&](int count) {
    for (int tries = 0; tries < 500 && files < count; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    EXPECT_EQ(files, count);
  };
  stays(2);
  steer({{"taken", 1}});
  stays(3);
  steer({{"pause", true}});
  steer({{"taken", 3}});
  stays(3);
  steer({{"pause", false}});
  stays(5);
  steer({{"stop", true}});
  making.join();
  EXPECT_EQ(done.at("reason"), "stopped");
  EXPECT_EQ(done.at("chunks"), 4);
}

TEST_F(LiveVideoTest, IsTwoChunksAheadOfWhatIsPlayed) {
  const auto begin = std::chrono::steady_clock::now();
  // Frames 1, 4, 4, 4, 4 at 20 a second: the last may begin when two chunks of the four before are left.
  const json done = shown([](const json&) {}, 20);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double frames = done.at("num_frames"), before = frames - 4;
  EXPECT_GT(took.count(), (before - 2 * 4) / 20 - 0.01);
  EXPECT_LT(took.count(), 10);
}

TEST_F(LiveVideoTest, EndsWithACancelledSession) {
  Session session(pipeline_, request());
  LiveVideo video({"a", folder_, request().prompt}, session, fragments_, {.fps = 1000}, mail_,
                  [&](const json& message) {
                    if (!message.contains("file")) return;
                    steer({{"taken", message.at("number")}});
                    session.cancel();
                  });
  const json done = video.run();
  EXPECT_EQ(done.at("reason"), "stopped");
  EXPECT_EQ(done.at("chunks"), 1);
}

}  // namespace
}  // namespace kinora::core::live_video
