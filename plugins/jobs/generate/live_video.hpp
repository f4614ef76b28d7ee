// A live session: the chunks of a video go out as they are made, and messages of its viewer change those to come.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/jobs/fragments/video_fragments.hpp"
#include "plugins/jobs/inference/session.hpp"

namespace kinora::core {

// [any-thread] Messages {"steer": ID, ...} on their way to a session.
class LiveMail {
 public:
  void push(nlohmann::json message);
  // The next message for this session, for which it waits until then. Messages for others are dropped.
  std::optional<nlohmann::json> next(const std::string& id, std::chrono::steady_clock::time_point until);

 private:
  std::mutex mutex_;
  std::condition_variable has_mail_;
  std::deque<nlohmann::json> messages_;
};

// [owner-thread] The next chunk begins when fewer than kAhead messages with bytes are not taken yet, and the viewer,
// who plays a chunk as soon as it comes, has at most kAhead chunks to play.
class LiveVideo {
 public:
  static constexpr int64_t kAhead = 2;
  // The shots and lengths of the finished chunks.
  struct Past {
    std::map<int64_t, nlohmann::json> shots;  // by the chunk with which each begins, without their lengths
    std::vector<int64_t> ends;                // pixel frames up to the end of each finished chunk
  };
  struct About {
    std::string id;
    std::filesystem::path folder;  // of the files with the bytes, which whoever is told removes
    std::string prompt;            // of the first chunk
    Past past{};                   // of a session that continues another one; it may have more chunks
  };
  using Tell = std::function<void(nlohmann::json message)>;
  LiveVideo(About about, inference::Session& session, const VideoFragments& writer, VideoFragments::Form form,
            LiveMail& mail, Tell tell);
  // Until the video's end, {"stop": true}, the session's cancellation, or 90 s in which it waits and no message
  // comes. Returns what is told as "done", see serving.hpp.
  nlohmann::json run();
  // Afterwards.
  Past past() const { return {shots_, ends_}; }

 private:
  using Clock = std::chrono::steady_clock;
  // Waits until the next chunk may begin. False: the session is to end.
  bool may_make();
  void obey(const nlohmann::json& message);
  void change(const nlohmann::json& message);
  void rewind(int64_t chunk);
  void begin_chunk();
  // The events whose change is complete with this chunk.
  std::vector<std::string> completed_by(int64_t chunk);
  void give(const at::Tensor& frames);
  void encode(const at::Tensor& frames);
  void send(nlohmann::json about, const std::string& bytes);
  nlohmann::json shots() const;

  const About about_;
  inference::Session& session_;
  const VideoFragments& writer_;
  VideoFragments::Form form_;
  LiveMail& mail_;
  const Tell tell_;
  std::unique_ptr<VideoFragments::Stream> stream_;
  std::string init_, fragment_;              // that stream_ gave
  std::map<int64_t, nlohmann::json> shots_;  // as in Past
  std::optional<nlohmann::json> shot_;       // that the next chunk begins
  int64_t transition_ = 1;                   // chunks in which its prompt goes over
  std::vector<std::string> events_;          // that the next chunk begins
  // Events by the chunk that completes them; each completes once.
  std::map<int64_t, std::vector<std::string>> completes_;
  std::vector<int64_t> ends_;     // as in Past
  int64_t sent_ = 0, taken_ = 0;  // messages with bytes
  bool is_paused_ = false;
  std::string reason_;                         // why it ends
  Clock::time_point plays_until_, may_begin_;  // of what was given; of the next chunk
  Clock::time_point active_ = Clock::now();    // the last message or chunk
};

}  // namespace kinora::core
