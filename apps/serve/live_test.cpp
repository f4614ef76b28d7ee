// Live sessions over a WebSocket, with the model of fake_model_test.cpp.
#include "apps/serve/live.hpp"

#include <atomic>
#include <random>

#include "apps/serve/access.hpp"
#include "apps/serve/videos_testing.hpp"
#include "apps/web/socket_testing.hpp"

namespace kinora::serve {
namespace live_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;
using web::SocketClient;

const std::string kToken = "the-token-of-this-test";
const std::string kBearer = "Authorization: Bearer " + kToken + "\r\n";

// A viewer of a session.
class Viewer {
 public:
  explicit Viewer(int port, const std::string& headers = kBearer)
      : client_(port, "/v1/realtime/video", headers) {}
  const std::string& answer() const { return client_.answer(); }
  void send(const std::string& text) { client_.text(text); }
  void say(const json& message) { send(message.dump()); }
  void resume(const std::string& id, size_t next) {
    say({{"type", "session.resume"}, {"session_id", id}, {"next_sequence", next}});
  }
  void start(const std::string& prompt) { say({{"type", "session.start"}, {"prompt", prompt}}); }
  void change(const std::string& event, const std::string& prompt) {
    say({{"type", "session.interaction"},
         {"event_id", event},
         {"event", {{"prompt", prompt}}},
         {"transition_chunks", 0}});
  }
  // The next message that is no ping. The bytes after a video.chunk_metadata are in its "bytes"; null: it is over.
  json next() {
    const auto frame = client_.next();
    if (frame.kind == SocketClient::kPing) return next();
    if (frame.kind != SocketClient::kText) return {};
    json out = json::parse(frame.bytes);
    if (out.at("type") != "video.chunk_metadata") return out;
    const auto bytes = client_.next();
    EXPECT_EQ(bytes.kind, SocketClient::kBinary);
    EXPECT_EQ(out.at("byte_length"), bytes.bytes.size());
    out["bytes"] = bytes.bytes;
    return out;
  }
  // The next message of this type.
  json next(const std::string& type) {
    json out = next();
    while (!out.is_null() && out.at("type") != type) out = next();
    EXPECT_FALSE(out.is_null()) << type;
    return out;
  }
  // The bytes of all chunks that are left, and the last message.
  std::pair<std::vector<std::string>, json> rest() {
    std::vector<std::string> chunks;
    for (json message = next(); !message.is_null(); message = next()) {
      if (message.contains("bytes")) chunks.push_back(message.at("bytes"));
      if (message.at("type") == "session.done" || message.at("type") == "error")
        return {std::move(chunks), std::move(message)};
    }
    return {std::move(chunks), {}};
  }
  int close_code() { return client_.close_code(); }

 private:
  SocketClient client_;
};

class Live : public VideosTest {
 protected:
  struct Form {
    int64_t lease = 0;
    bool makes_live = true, has_other = false;  // another model, "n"
  };
  explicit Live(const Form& form) {
    settings_.lease = form.lease;
    fs::create_directories(folder_ / "models/m");
    if (!form.makes_live) std::ofstream(folder_ / "models/m/no_live") << "x";
    if (form.has_other) settings_.models.push_back({.name = "n", .pipeline = folder_ / "another run file"});
    videos_ = serve();
    guard_with(http_, kToken, 0);
    serve_live(http_, *videos_);
    port_ = http_.bind(0);
    thread_ = std::thread([this] { http_.run([this] { return ends_.load(); }); });
  }
  Live() : Live(Form()) {}
  ~Live() override {
    ends_ = true;
    thread_.join();
    videos_->stop();
  }
  bool becomes(int64_t sessions) const {
    const std::string line = "kinora_serve_live_sessions " + std::to_string(sessions) + "\n";
    return eventually([&] { return videos_->metrics().find(line) != std::string::npos; });
  }
  bool becomes_idle() const {
    const fs::path left = folder_ / "live";
    return becomes(0) && eventually([&] { return !fs::exists(left) || fs::is_empty(left); });
  }
  // A number that the model's process writes.
  int64_t number(const std::string& name) const {
    const std::string text = bytes_of(folder_ / "models/m" / name);
    return text.empty() ? 0 : std::stoll(text);
  }

  std::unique_ptr<Videos> videos_;
  int port_ = 0;

 private:
  web::Server http_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

TEST_F(Live, ShowsAVideoFromItsBeginningToItsEnd) {
  Viewer viewer(port_);
  viewer.say({{"type", "session.start"}, {"prompt", "sea"}, {"seed", 7}, {"size", "32x16"}, {"fps", 4}});
  const json queued = viewer.next();
  EXPECT_EQ(queued.at("type"), "session.queued");
  EXPECT_EQ(queued.at("ahead"), 0);
  const json start = viewer.next();
  EXPECT_EQ(start.at("type"), "video.start");
  EXPECT_EQ(start.at("mime"), "video/mp4");
  EXPECT_EQ(start.at("seed"), 7);
  EXPECT_EQ(start.at("session_id"), queued.at("session_id"));
  const auto [chunks, done] = viewer.rest();
  EXPECT_EQ(chunks, (std::vector<std::string>{"the beginning", "0 sea", "1 sea", "2 sea", "3 sea", "4 sea",
                                              "5 sea"}));
  EXPECT_EQ(done.at("type"), "session.done");
  EXPECT_EQ(done.at("reason"), "completed");
  EXPECT_EQ(viewer.close_code(), 1000);
  EXPECT_TRUE(becomes_idle());
}

TEST_F(Live, TakesTheTokenAsASubprotocolAndRefusesOtherSites) {
  EXPECT_THAT(Viewer(port_, "").answer(), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Viewer(port_, "Authorization: Bearer wrong\r\n").answer(), StartsWith("HTTP/1.1 401"));
  for (const char* wrong : {"kinora.", "kinora.wrong", "the-token-of-this-test", "x, kinora.wrong"})
    EXPECT_THAT(Viewer(port_, "Sec-WebSocket-Protocol: " + std::string(wrong) + "\r\n").answer(),
                StartsWith("HTTP/1.1 401"))
        << wrong;
  for (const char* origin : {"http://there", "null", "http://here.there"})
    EXPECT_THAT(Viewer(port_, kBearer + "Origin: " + origin + "\r\n").answer(), StartsWith("HTTP/1.1 403"))
        << origin;
  Viewer viewer(port_, "Origin: http://here\r\nSec-WebSocket-Protocol: kinora." + kToken + "\r\n");
  EXPECT_THAT(viewer.answer(), StartsWith("HTTP/1.1 101"));
  viewer.start("sea");
  EXPECT_EQ(viewer.rest().first.size(), 7U);
}

TEST_F(Live, ChangesItsPromptBetweenChunks) {
  Viewer viewer(port_);
  viewer.start("long");
  viewer.next("video.chunk_metadata");
  viewer.change("one", "red");
  viewer.change("two", "blue");
  std::vector<std::string> queued, started;
  std::string bytes;
  while (!bytes.ends_with("blue")) {
    const json message = viewer.next();
    ASSERT_FALSE(message.is_null());
    if (message.at("type") == "session.interaction.queued") {
      queued.push_back(message.at("event_id"));
      EXPECT_EQ(message.at("transition_chunks"), 1);
    }
    if (!message.contains("bytes")) continue;
    bytes = message.at("bytes");
    for (const auto& id : message.value("started_event_ids", json::array())) started.push_back(id);
  }
  EXPECT_EQ(queued, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(started, queued);
  viewer.change("one", "green");
  const json error = viewer.next("error");
  EXPECT_EQ(error.at("code"), "event_id_conflict");
  EXPECT_EQ(error.at("event_id"), "one");
  EXPECT_THAT(viewer.next("video.chunk_metadata").at("bytes"), HasSubstr("blue")) << "it goes on";
}

TEST_F(Live, TakesACutOrASwitchAsShotsHaveThem) {
  Viewer viewer(port_);
  viewer.start("long");
  viewer.next("video.start");
  struct Case {
    json event, transition, shot;
    int64_t chunks = 1;
  };
  const std::vector<Case> cases{
      {json::object(), nullptr, {{"cut", false}}},
      {{{"cut", true}}, 1, {{"cut", true}}},
      {{{"switch", "none"}}, 0, {{"cut", false}}},
      {{{"switch", "recache"}, {"cut", true}}, 1, {{"cut", true}, {"switch", "recache"}}},
      {{{"switch", "flush"}}, nullptr, {{"cut", false}, {"switch", "flush"}}},
      {{{"switch", "blend"}}, nullptr, {{"cut", false}, {"switch", "blend"}, {"blend", 4}}, 4},
      {json::object(), 3, {{"cut", false}, {"switch", "blend"}, {"blend", 3}}, 3}};
  for (size_t i = 0; i < cases.size(); ++i) {
    json message{{"type", "session.interaction"}, {"event_id", std::to_string(i)}, {"event", cases[i].event}};
    message["event"]["prompt"] = "red";
    if (!cases[i].transition.is_null()) message["transition_chunks"] = cases[i].transition;
    viewer.say(message);
    EXPECT_EQ(viewer.next("session.interaction.queued").at("transition_chunks"), cases[i].chunks) << message;
    json steered;
    EXPECT_TRUE(eventually([&] {
      steered = json::parse(bytes_of(folder_ / "models/m/steered"), nullptr, false);
      return steered.is_object() && steered.at("event_id") == std::to_string(i);
    }));
    steered.erase("steer");
    json want = cases[i].shot;
    want.update({{"prompt", "red"}, {"event_id", std::to_string(i)}});
    EXPECT_EQ(steered, want);
  }
}

TEST_F(Live, PausesAndRewinds) {
  Viewer viewer(port_);
  viewer.start("long");
  while (viewer.next("video.chunk_metadata").value("generation_chunk_index", -1) < 5) continue;
  viewer.say({{"type", "session.pause"}});
  ASSERT_TRUE(eventually([&] { return number("paused") > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(number("sent"), number("paused"));
  viewer.say({{"type", "session.rewind"}, {"chunk", 2}});
  viewer.say({{"type", "session.resume"}});
  int64_t chunk = 5, next = 6;  // what is on its way comes first
  while ((chunk = viewer.next("video.chunk_metadata").at("generation_chunk_index")) != 2)
    EXPECT_EQ(chunk, next++);
  EXPECT_EQ(viewer.next("video.chunk_metadata").at("generation_chunk_index"), 3);
  viewer.say({{"type", "session.ping"}});
  viewer.next("session.pong");
  viewer.say({{"type", "session.rewind"}, {"chunk", 1'000'000}});
  EXPECT_EQ(viewer.next("error").at("code"), "invalid_value") << "of the model's process";
  viewer.say({{"type", "session.stop"}});
  const json done = viewer.next("session.done");
  EXPECT_EQ(done.at("reason"), "stopped");
  EXPECT_TRUE(becomes_idle());
}

TEST_F(Live, SaysWhatIsWrongWithAMessage) {
  struct Case {
    std::string message, code;
    bool is_first = false;
  };
  const std::vector<Case> cases{
      {"{", "invalid_json", true},
      {"[1]", "invalid_json", true},
      {R"({"type": "session.pause"})", "not_started", true},
      {R"({"type": "session.start"})", "missing", true},
      {R"({"type": "session.start", "prompt": "refused"})", "invalid_value", true},
      {R"({"type": "session.start", "prompt": "x", "sed": 1})", "unknown_parameter", true},
      {R"({"type": "session.start", "prompt": "x", "model": "n"})", "model_not_found", true},
      {R"({"type": "session.start", "prompt": "x", "num_frames": 8000})", "too_long", true},
      {R"({"type": "session.start", "branch": {"session": "live_0", "chunk": 1}})", "session_not_found",
       true},
      {R"({"type": "session.start", "branch": {"session": "live_0", "chunk": -1}})", "invalid_value", true},
      {R"({"type": "session.start", "branch": {"session": "live_0", "chunk": 1}, "seed": 2})",
       "invalid_value", true},
      {R"({"type": "session.resume", "session_id": "live_0"})", "session_not_found", true},
      {R"({"type": "session.resume", "session_id": "live_0", "next_sequence": -1})", "invalid_value", true},
      {R"({"type": "session.start", "shots": [{"prompt": "x", "chunks": 2}]})", "invalid_value", true},
      {"{", "invalid_json"},
      {R"({"type": "session.start", "prompt": "x"})", "started"},
      {R"({"type": "session.none"})", "invalid_value"},
      {R"({"type": "session.rewind", "chunk": -1})", "invalid_value"},
      {R"({"type": "session.interaction", "event": {"prompt": "x"}})", "invalid_value"},
      {R"({"type": "session.interaction", "event_id": "a"})", "invalid_value"},
      {R"({"type": "session.interaction", "event_id": "a", "event": {"prompt": 3}})", "invalid_value"},
      {R"({"type": "session.interaction", "event_id": "a", "event": {"prompt": "x", "cut": 1}})",
       "invalid_value"},
      {R"({"type": "session.interaction", "event_id": "a", "event": {"prompt": "x", "switch": "cut"}})",
       "invalid_value"},
      {R"({"type": "session.interaction", "event_id": "a", "event": {"prompt": "x", "shot": 1}})",
       "invalid_value"},
      {R"({"type": "session.interaction", "event_id": "a", "event": {"prompt": "x", "switch": "flush"},)"
       R"( "transition_chunks": 2})",
       "invalid_value"}};
  for (const auto& one : cases) {
    Viewer viewer(port_);
    if (!one.is_first) viewer.start("long");
    if (!one.is_first) viewer.next("video.start");
    viewer.send(one.message);
    const json error = viewer.next("error");
    EXPECT_EQ(error.at("code"), one.code) << one.message;
    EXPECT_NE(error.at("message"), "") << one.message;
    if (!one.is_first) continue;
    EXPECT_EQ(viewer.close_code(), 1000) << one.message;
  }
  EXPECT_TRUE(becomes_idle());
}

TEST_F(Live, WaitsForAViewerThatDoesNotRead) {
  Viewer viewer(port_);
  viewer.start("big");
  int64_t before = -1;
  EXPECT_TRUE(eventually([&] { return number("sent") > 2; }));
  // The systems' buffers hold a few chunks of 4 MiB; behind them it waits.
  EXPECT_TRUE(eventually([&] {
    before = number("sent");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return number("sent") == before;
  }));
  EXPECT_LT(before, 8);
  std::vector<int64_t> seen;
  while (seen.size() < 12) {
    const json chunk = viewer.next("video.chunk_metadata");
    if (chunk.at("kind") == "media") seen.push_back(chunk.at("generation_chunk_index"));
  }
  EXPECT_EQ(seen.back(), 11) << "none is left out";
}

TEST_F(Live, EndsWhenItsViewerIsGone) {
  {
    Viewer viewer(port_);
    viewer.start("long");
    viewer.next("video.chunk_metadata");
  }
  EXPECT_TRUE(becomes_idle());
  Viewer next(port_);
  next.start("sea");
  EXPECT_EQ(next.rest().first.size(), 7U);
}

TEST_F(Live, TakesItsTurnBetweenVideos) {
  const std::string first = create(*videos_, "waits"), second = create(*videos_, "waits"),
                    third = create(*videos_, "x");
  ASSERT_TRUE(VideosTest::becomes(*videos_, first, "in_progress"));
  auto gone = std::make_unique<Viewer>(port_);
  Viewer stopped(port_), viewer(port_), later(port_);
  for (Viewer* one : {gone.get(), &stopped, &viewer, &later}) {
    one->start("long");
    EXPECT_EQ(one->next().at("type"), "session.queued");
  }
  stopped.say({{"type", "session.stop"}});
  EXPECT_EQ(stopped.next().at("reason"), "stopped") << "while it waits";
  gone.reset();
  EXPECT_TRUE(becomes(2));
  viewer.change("early", "red");
  EXPECT_EQ(viewer.next().at("type"), "session.interaction.queued");
  std::ofstream(folder_of(first) / "go") << "x";
  EXPECT_EQ(viewer.next().at("type"), "video.start");
  EXPECT_EQ(status_of(*videos_, second), "queued") << "the session comes before the next video";
  while (!viewer.next("video.chunk_metadata").at("bytes").get<std::string>().ends_with("red")) continue;
  viewer.say({{"type", "session.stop"}});
  viewer.next("session.done");
  EXPECT_TRUE(VideosTest::becomes(*videos_, second, "in_progress"))
      << "a video comes before the next session";
  std::ofstream(folder_of(second) / "go") << "x";
  EXPECT_EQ(later.next().at("type"), "video.start");
  later.say({{"type", "session.stop"}});
  later.next("session.done");
  EXPECT_TRUE(VideosTest::becomes(*videos_, third, "completed"));
  EXPECT_TRUE(becomes_idle());
}

TEST_F(Live, EndsWithItsModelsProcess) {
  for (const char* how : {"fails", "dies", "fails"}) {
    Viewer viewer(port_);
    viewer.start(how);
    const json error = viewer.next("error");
    EXPECT_EQ(error.at("code"), "generation_failed");
    EXPECT_EQ(viewer.close_code(), 1000);
    EXPECT_TRUE(becomes_idle());
    EXPECT_TRUE(eventually([&] { return videos_->health().at("status") == "ok"; }));
  }
  Viewer next(port_);
  next.start("sea");
  EXPECT_EQ(next.rest().first.size(), 7U);
}

class LeasedLive : public Live {
 protected:
  explicit LeasedLive(int64_t lease = 30) : Live(Form{.lease = lease}) {}
  // Loses its connection after the first message of this chunk. Returns the session's id.
  std::string lost_at(int64_t chunk, const std::string& prompt = "long") const {
    Viewer viewer(port_);
    viewer.start(prompt);
    std::string id = viewer.next("session.queued").at("session_id");
    while (viewer.next("video.chunk_metadata").value("generation_chunk_index", -1) < chunk) continue;
    return id;
  }
};

TEST_F(LeasedLive, GivesTheSameBytesOverConnectionsThatAreLost) {
  Viewer whole(port_);
  whole.start("sea");
  const auto want = whole.rest().first;
  ASSERT_EQ(want.size(), 7U);
  std::mt19937 random(5);
  for (int round = 0; round < 6; ++round) {
    auto viewer = std::make_unique<Viewer>(port_);
    viewer->start("sea");
    const std::string id = viewer->next("session.queued").at("session_id");
    std::vector<std::string> got;
    json last = {{"type", "none"}};
    while (last.at("type") != "session.done") {
      for (auto left = random() % 5; left > 0 && last.at("type") != "session.done"; --left) {
        last = viewer->next();
        ASSERT_FALSE(last.is_null());
        if (!last.contains("bytes")) continue;
        EXPECT_EQ(last.at("sequence"), got.size());
        got.push_back(last.at("bytes"));
      }
      if (last.at("type") == "session.done") break;
      viewer.reset();
      viewer = std::make_unique<Viewer>(port_);
      viewer->resume(id, got.size());
      const json resumed = viewer->next();
      ASSERT_EQ(resumed.at("type"), "session.resumed") << resumed;
      EXPECT_EQ(resumed.at("next_sequence"), got.size());
    }
    EXPECT_EQ(got, want) << round;
    EXPECT_EQ(last.at("reason"), "completed");
  }
}

TEST_F(LeasedLive, MakesNoChunkWhileItsViewerIsGone) {
  const std::string id = lost_at(3), video = create(*videos_, "x");
  ASSERT_TRUE(eventually([&] { return number("paused") > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(number("sent"), number("paused"));
  EXPECT_EQ(status_of(*videos_, video), "queued");
  Viewer viewer(port_);
  viewer.resume(id, 0);
  viewer.next("video.start");
  EXPECT_EQ(viewer.next().at("bytes"), "the beginning");
  for (int64_t chunk = 0; chunk < 12; ++chunk)
    EXPECT_EQ(viewer.next("video.chunk_metadata").at("generation_chunk_index"), chunk);
  viewer.change("one", "red");
  viewer.next("session.interaction.queued");
  Viewer again(port_);
  again.resume(id, 12);
  again.change("one", "blue");
  EXPECT_EQ(again.next("error").at("code"), "event_id_conflict") << "the server has it";
  again.say({{"type", "session.stop"}});
  EXPECT_EQ(again.next("session.done").at("reason"), "stopped");
  EXPECT_TRUE(VideosTest::becomes(*videos_, video, "completed"));
}

TEST_F(LeasedLive, StaysPausedWhenItsViewerComesBack) {
  auto viewer = std::make_unique<Viewer>(port_);
  viewer->start("long");
  const std::string id = viewer->next("session.queued").at("session_id");
  while (viewer->next("video.chunk_metadata").value("generation_chunk_index", -1) < 3) continue;
  viewer->say({{"type", "session.pause"}});
  ASSERT_TRUE(eventually([&] { return number("paused") > 0; }));
  const int64_t sent = number("sent");
  viewer.reset();
  Viewer again(port_);
  again.resume(id, 0);
  EXPECT_EQ(again.next("session.resumed").value("paused", false), true);
  while (again.next("video.chunk_metadata").at("sequence").get<int64_t>() < sent - 1) continue;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(number("sent"), sent) << "no chunk was made";
  again.say({{"type", "session.resume"}});
  EXPECT_TRUE(eventually([&] { return number("sent") > sent; }));
  Viewer other(port_);
  other.resume(id, 0);
  EXPECT_EQ(other.next("session.resumed").value("paused", true), false);
  other.say({{"type", "session.stop"}});
  EXPECT_EQ(other.next("session.done").at("reason"), "stopped");
}

TEST_F(LeasedLive, IsTakenOverByAnotherConnection) {
  Viewer first(port_);
  first.start("big");
  const std::string id = first.next("session.queued").at("session_id");
  while (first.next("video.chunk_metadata").value("generation_chunk_index", -1) < 1) continue;
  Viewer ahead(port_);
  ahead.resume(id, 1000);
  EXPECT_EQ(ahead.next("error").at("code"), "invalid_value");
  EXPECT_EQ(ahead.close_code(), 1000);
  Viewer second(port_);
  second.resume(id, 0);
  EXPECT_EQ(first.next("error").at("code"), "taken_over");
  EXPECT_EQ(first.close_code(), 1000);
  EXPECT_EQ(second.next("video.chunk_metadata").at("bytes"), "the beginning");
  for (int64_t chunk = 0; chunk < 12; ++chunk)
    EXPECT_EQ(second.next("video.chunk_metadata").at("generation_chunk_index"), chunk);
  Viewer late(port_);
  late.resume(id, 0);
  EXPECT_EQ(late.next("error").at("code"), "too_late") << "more than 32 MiB";
  second.say({{"type", "session.stop"}});
  EXPECT_EQ(second.next("session.done").at("reason"), "stopped");
}

TEST_F(LeasedLive, IsContinuedByAnotherSessionFromAnEarlierChunk) {
  Viewer first(port_);
  first.start("long");
  const std::string id = first.next("session.queued").at("session_id");
  first.next("video.chunk_metadata");
  const auto branch = [&](Viewer& viewer, const std::string& of, int64_t chunk) {
    viewer.say({{"type", "session.start"}, {"branch", {{"session", of}, {"chunk", chunk}}}});
    return viewer.next();
  };
  Viewer second(port_), third(port_);
  const json queued = branch(second, id, 4);
  EXPECT_EQ(queued.at("ahead"), 1) << "the first one is at work";
  EXPECT_EQ(branch(third, queued.at("session_id"), 0).at("code"), "not_started");
  first.say({{"type", "session.stop"}});
  first.next("session.done");
  EXPECT_EQ(second.next("video.chunk_metadata").at("bytes"), "the beginning") << "of a stream of its own";
  EXPECT_EQ(second.next("video.chunk_metadata").at("bytes"), "4 long");
  second.say({{"type", "session.stop"}});
  second.next("session.done");
  EXPECT_TRUE(becomes_idle());
}

class BriefLease : public LeasedLive {
 protected:
  BriefLease() : LeasedLive(1) {}
};

TEST_F(BriefLease, EndsTheSessionOfAViewerThatDoesNotComeBack) {
  const std::string id = lost_at(2), video = create(*videos_, "x");
  EXPECT_TRUE(VideosTest::becomes(*videos_, video, "completed"));
  EXPECT_TRUE(becomes_idle());
  EXPECT_TRUE(eventually([&] { return bytes_of(folder_ / "models/m/forgotten") == id; }));
  Viewer viewer(port_);
  viewer.resume(id, 0);
  EXPECT_EQ(viewer.next("error").at("code"), "session_not_found");
}

class LiveOfTwo : public Live {
 protected:
  LiveOfTwo() : Live(Form{.has_other = true}) {}
};

TEST_F(LiveOfTwo, ASlowViewerSlowsNoOtherSession) {
  Viewer slow(port_);
  slow.say({{"type", "session.start"}, {"prompt", "big"}, {"model", "m"}});
  slow.next("video.start");
  ASSERT_TRUE(eventually([&] {
    const int64_t before = number("sent");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return before > 2 && number("sent") == before;
  })) << "it waits for its viewer";
  for (int i = 0; i < 20; ++i) {  // more than the server has threads
    Viewer other(port_);
    other.say({{"type", "session.start"}, {"prompt", "sea"}, {"model", "n"}});
    EXPECT_EQ(other.rest().first.size(), 7U);
  }
}

class LiveOfOther : public Live {
 protected:
  LiveOfOther() : Live(Form{.makes_live = false}) {}
};

TEST_F(LiveOfOther, NeedsAModelThatMakesChunks) {
  Viewer viewer(port_);
  viewer.start("sea");
  const json error = viewer.next("error");
  EXPECT_EQ(error.at("code"), "unsupported");
  EXPECT_THAT(error.at("message"), HasSubstr("teacher_forcing"));
}

}  // namespace live_test
}  // namespace kinora::serve
