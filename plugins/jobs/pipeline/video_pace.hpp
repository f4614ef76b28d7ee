// How fast videos are done and how long the rest takes, by seconds of video: videos differ more in length than clips
// do, so that their number says little.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kinora::core {

// The length of a video that is not known yet is that of its bytes, at the seconds per byte of those that are known.
class VideoPace {
 public:
  using Clock = std::chrono::steady_clock;
  // left: bytes and number of the videos that have not ended. length: seconds of the video behind a url, 0 if unknown;
  // asked once for a video that takes long; empty: unknown.
  VideoPace(uint64_t left, int64_t videos, std::function<double(const std::string& url)> length = {},
            Clock::time_point now = Clock::now())
      : length_(std::move(length)), bytes_left_(left), videos_left_(videos), start_(now) {}

  // The next video has ended without work.
  void skip(uint64_t bytes);
  void begin(const std::string& key, const std::string& url, uint64_t bytes,
             Clock::time_point now = Clock::now());
  // What was made of the video up to this second has ended. A video that has not begun is ignored.
  void reach(const std::string& key, double seconds, Clock::time_point now = Clock::now());
  // seconds: its length; 0: unknown.
  void end(const std::string& key, double seconds, Clock::time_point now = Clock::now());
  // It failed or was filtered: only what it has reached is work done.
  void drop(const std::string& key, Clock::time_point now = Clock::now());

  // Asks for the length of videos that have been at work for seconds.
  void look(Clock::time_point now = Clock::now());
  // "2:10 min left, 1.2x real time"; "": the videos have no lengths.
  std::string text(Clock::time_point now = Clock::now()) const;
  // Seconds that the rest takes, estimated when something last ended, less the time since: it never grows while nothing
  // ends. 0: unknown, as until a tenth of the seconds and two videos (or all but the last) are done and once it has
  // passed; or all is done.
  double left(Clock::time_point now = Clock::now()) const;
  // The videos at work, the oldest first: "city_night (1:20 min of 3:00 min)".
  std::vector<std::string> at_work() const;

 private:
  struct Begun {
    std::string key, url;
    uint64_t bytes;
    Clock::time_point at;
    double length = 0, reached = 0;  // seconds; 0: unknown
    bool was_asked = false;
  };
  double expected(uint64_t bytes, int64_t videos) const;
  double done() const;
  double rest() const;  // seconds of video
  double rate(Clock::time_point now) const;
  void take(uint64_t bytes);
  void estimate(Clock::time_point now);

  const std::function<double(const std::string& url)> length_;
  uint64_t bytes_left_;  // of videos that have not begun, and their number
  int64_t videos_left_;
  const Clock::time_point start_;
  std::vector<Begun> begun_;
  double ended_ = 0;  // seconds of videos that have ended
  int64_t videos_ended_ = 0;
  Clock::time_point over_{};  // when all is done, as estimated; the past: unknown
  double known_seconds_ = 0;
  uint64_t known_bytes_ = 0;  // of videos whose length is known
  int64_t known_ = 0;
  bool has_lengthless_ = false;  // a video ended without a length
};

}  // namespace kinora::core
