#include "shots/frame_times.hpp"

#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace kinora::video {
namespace {

constexpr int64_t kMostFrames = int64_t{1} << 31;
constexpr double kLatest = 4e18;  // microseconds; twice it still fits 64 bits
constexpr double kUnknownRate = 25;

}  // namespace

Moment FilmClock::next(int64_t pts, int64_t duration) {
  if (times_.empty()) start_ = pts;
  times_.push_back(microseconds(pts));
  end_pts_ = pts + duration;
  return {static_cast<int64_t>(times_.size()) - 1, times_.back()};
}

int64_t even_time(int64_t i, double fps) {
  return static_cast<int64_t>(std::nearbyint(std::min(static_cast<double>(i) * 1e6 / fps, kLatest)));
}

int64_t FrameTimes::at(int64_t frame) const {
  if (even_ == 0) return times_[static_cast<size_t>(frame)];
  return frame < even_ ? even_time(frame, fps_) : end_;
}

int64_t FrameTimes::last_within(int64_t from, int64_t end, int64_t microseconds) const {
  if (microseconds <= 0) return from;
  const int64_t latest = at(from) + microseconds;
  while (from < end) {
    const int64_t middle = from + (end - from + 1) / 2;
    if (at(middle) <= latest) {
      from = middle;
    } else {
      end = middle - 1;
    }
  }
  return from;
}

int64_t FrameTimes::first_within(int64_t first, int64_t end, int64_t microseconds) const {
  if (microseconds <= 0) return end;
  const int64_t earliest = at(end) - microseconds;
  while (first < end) {
    const int64_t middle = first + (end - first) / 2;
    if (at(middle) >= earliest) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return end;
}

void write_frame_times(nlohmann::json& shots, const FilmClock& clock, double fps) {
  const auto& times = clock.times();
  bool even = fps > 0;
  for (size_t i = 0; even && i < times.size(); ++i)
    even = times[i] == even_time(static_cast<int64_t>(i), fps);
  if (!even) shots["frame_times_us"] = times;
  shots["end_us"] = clock.end();
}

FrameTimes read_frame_times(const nlohmann::json& shots) {
  const int64_t frames = shots.at("frames");
  if (frames <= 0 || frames > kMostFrames) throw std::invalid_argument("frames is out of range");
  const auto given = shots.find("frame_times_us"), end = shots.find("end_us");
  const bool ends = end != shots.end() && end->is_number_integer();
  if (given == shots.end()) {
    const double rate = shots.at("fps"), fps = rate > 0 ? rate : kUnknownRate;
    const int64_t last = even_time(frames - 1, fps);
    return {frames, fps, std::max(last, ends ? end->get<int64_t>() : even_time(frames, fps))};
  }
  FrameTimes out;
  if (!ends || !given->is_array() || static_cast<int64_t>(given->size()) != frames)
    throw std::invalid_argument(
        "frame_times_us must have one time per frame, followed by end_us");
  const auto push = [&](const nlohmann::json& time) {
    const bool ascends =
        time.is_number_integer() && (out.known() == 0 || time.get<int64_t>() >= out.at(out.known() - 1));
    if (!ascends || std::abs(time.get<double>()) > kLatest)
      throw std::invalid_argument("frame_times_us and end_us must ascend");
    out.push(time);
  };
  for (const auto& time : *given) push(time);
  push(*end);
  return out;
}

}  // namespace kinora::video
