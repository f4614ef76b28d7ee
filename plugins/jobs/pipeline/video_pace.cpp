#include "plugins/jobs/pipeline/video_pace.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/quantity.hpp"

namespace kinora::core {
namespace {

constexpr auto kLong = std::chrono::seconds(2);
constexpr double kFirst = 0.1;  // share of the seconds after whose work the rest is estimated
constexpr double kMost = 1e9;   // seconds; a clock holds no more than 9e9
constexpr int64_t kFirstVideos = 2;
constexpr double kLeastReached = 0.5;  // seconds; no clip has ended before, however far the work is
constexpr double kLeastRate = 0.05;    // seconds of video a second that are worth a word

}  // namespace

void VideoPace::take(uint64_t bytes) {
  bytes_left_ -= std::min(bytes_left_, bytes);
  videos_left_ = std::max<int64_t>(0, videos_left_ - 1);
}

void VideoPace::skip(uint64_t bytes) { take(bytes); }

void VideoPace::begin(const std::string& key, const std::string& url, uint64_t bytes, Clock::time_point now) {
  take(bytes);
  begun_.push_back({key, url, bytes, now});
}

void VideoPace::reach(const std::string& key, double seconds, Clock::time_point now) {
  const auto at = std::ranges::find(begun_, key, &Begun::key);
  if (at == begun_.end() || seconds <= at->reached) return;
  at->reached = seconds;
  estimate(now);
}

void VideoPace::end(const std::string& key, double seconds, Clock::time_point now) {
  const auto at = std::ranges::find(begun_, key, &Begun::key);
  if (at == begun_.end()) return;
  if (seconds > 0 && at->length == 0) known_seconds_ += seconds, known_bytes_ += at->bytes, ++known_;
  const double length = seconds > 0 ? seconds : at->length;
  const double likely = length > 0 ? length : expected(at->bytes, 1);
  has_lengthless_ = has_lengthless_ || likely <= 0;
  ended_ += likely;
  ++videos_ended_;
  begun_.erase(at);
  estimate(now);
}

void VideoPace::drop(const std::string& key, Clock::time_point now) {
  const auto at = std::ranges::find(begun_, key, &Begun::key);
  if (at == begun_.end()) return;
  ended_ += at->reached;
  begun_.erase(at);
  estimate(now);
}

void VideoPace::look(Clock::time_point now) {
  for (auto& video : begun_) {
    if (!length_ || video.was_asked || now - video.at < kLong) continue;
    video.was_asked = true;
    video.length = std::max(0.0, length_(video.url));
    if (video.length > 0) known_seconds_ += video.length, known_bytes_ += video.bytes, ++known_;
  }
}

// Seconds of so many videos that have so many bytes together.
double VideoPace::expected(uint64_t bytes, int64_t videos) const {
  if (known_ == 0 || videos == 0) return 0;
  if (known_bytes_ > 0 && bytes > 0)
    return known_seconds_ / static_cast<double>(known_bytes_) * static_cast<double>(bytes);
  return known_seconds_ / static_cast<double>(known_) * static_cast<double>(videos);
}

double VideoPace::done() const {
  double out = ended_;
  for (const auto& video : begun_) out += video.reached;
  return out;
}

double VideoPace::rate(Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  return seconds > 0 ? done() / seconds : 0;
}

double VideoPace::rest() const {
  double seconds = expected(bytes_left_, videos_left_);
  for (const auto& video : begun_) {
    const double length = video.length > 0 ? video.length : expected(video.bytes, 1);
    seconds += std::max(0.0, length - video.reached);
  }
  return seconds;
}

void VideoPace::estimate(Clock::time_point now) {
  const double seconds = rest(), so_far = done(), a_second = rate(now);
  const auto videos = videos_left_ + static_cast<int64_t>(begun_.size());
  const bool is_known =
      a_second > 0 && so_far >= kFirst * (so_far + seconds) && (videos_ended_ >= kFirstVideos || videos <= 1);
  over_ = is_known ? now + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(std::min(kMost, seconds / a_second)))
                   : Clock::time_point();
}

double VideoPace::left(Clock::time_point now) const {
  return std::max(0.0, std::chrono::duration<double>(over_ - now).count());
}

std::string VideoPace::text(Clock::time_point now) const {
  const double a_second = rate(now), in = left(now);
  if (a_second <= 0 && has_lengthless_) return "";
  const bool is_over = videos_left_ == 0 && begun_.empty();
  std::string out = is_over ? "" : in >= 0.5 ? duration_text(in) + " left" : "time left not known yet";
  if (a_second >= kLeastRate)
    out += fmt::format("{}{:.{}f}x real time", out.empty() ? "" : ", ", a_second, a_second < 10 ? 1 : 0);
  return out;
}

std::vector<std::string> VideoPace::at_work() const {
  std::vector<std::string> out;
  for (const auto& video : begun_) {
    out.push_back(video.key);
    if (video.length > 0 && video.reached < kLeastReached)
      out.back() += fmt::format(" ({} long)", duration_text(video.length));
    else if (video.length > 0)
      out.back() += fmt::format(" ({} of {})", duration_text(video.reached), duration_text(video.length));
    else if (video.reached > 0)
      out.back() += fmt::format(" ({} done)", duration_text(video.reached));
  }
  return out;
}

}  // namespace kinora::core
