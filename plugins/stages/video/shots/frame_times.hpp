// Presentation times of a video's frames, at constant or variable rate. All lengths in seconds are measured by them.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "media/probe.hpp"
#include "shots/shot_clock.hpp"

namespace kinora::video {

// Times of frames as they are decoded, in microseconds from the first.
class FilmClock {
 public:
  explicit FilmClock(Rational base) : base_(base) {}
  // duration: of the frame, in ticks; replaced by the next frame's pts.
  Moment next(int64_t pts, int64_t duration);
  const std::vector<int64_t>& times() const { return times_; }
  // End of the last frame.
  int64_t end() const { return microseconds(end_pts_); }

 private:
  int64_t microseconds(int64_t pts) const {
    return presentation_microseconds(pts, start_, base_.num, base_.den);
  }

  Rational base_;
  int64_t start_ = 0, end_pts_ = 0;
  std::vector<int64_t> times_;
};

// Times of frames 0 to N - 1 and, as frame N, of the end of the video; microseconds from the first frame, ascending.
class FrameTimes {
 public:
  FrameTimes() = default;
  // One frame every 1 / fps seconds.
  FrameTimes(int64_t frames, double fps, int64_t end) : even_(frames), end_(end), fps_(fps) {}

  void push(int64_t microseconds) { times_.push_back(microseconds); }
  // Number of known times; for a complete video one more than its frames.
  int64_t known() const { return even_ > 0 ? even_ + 1 : static_cast<int64_t>(times_.size()); }
  int64_t at(int64_t frame) const;

  // Returns the last frame of [from, end] that is shown at most this many microseconds after `from`.
  int64_t last_within(int64_t from, int64_t end, int64_t microseconds) const;
  // Returns the first frame of [first, end] that is shown at most this many microseconds before `end`.
  int64_t first_within(int64_t first, int64_t end, int64_t microseconds) const;

 private:
  std::vector<int64_t> times_;
  int64_t even_ = 0, end_ = 0;  // even_: number of frames; 0 if times_ is used
  double fps_ = 0;
};

// Time of frame `i` in a video of constant rate.
int64_t even_time(int64_t i, double fps);

// Adds the end of the video to shots.json (end_us) and, if its frames are not shown every 1 / fps, their times
// (frame_times_us).
void write_frame_times(nlohmann::json& shots, const FilmClock& clock, double fps);

// Reads the output of write_frame_times(); without it, times follow from the rate. std::invalid_argument for invalid
// times.
FrameTimes read_frame_times(const nlohmann::json& shots);

}  // namespace kinora::video
