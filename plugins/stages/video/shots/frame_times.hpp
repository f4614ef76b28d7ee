// When the frames of a film are shown: what lengths in seconds are counted by, at a constant rate and at a
// variable one.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "media/probe.hpp"
#include "shots/shot_clock.hpp"

namespace kinora::video {

// Times of all frames as they come, in microseconds from the first.
class FilmClock {
 public:
  explicit FilmClock(Rational base) : base_(base) {}
  // duration: of the frame, in ticks; the truth is the next frame's pts.
  Moment next(int64_t pts, int64_t duration);
  const std::vector<int64_t>& times() const { return times_; }
  // When the last frame ends.
  int64_t end() const { return microseconds(end_pts_); }

 private:
  int64_t microseconds(int64_t pts) const {
    return presentation_microseconds(pts, start_, base_.num, base_.den);
  }

  Rational base_;
  int64_t start_ = 0, end_pts_ = 0;
  std::vector<int64_t> times_;
};

// Frames 0 to N - 1 and, as frame N, the end of the film; microseconds from the first frame, ascending.
class FrameTimes {
 public:
  FrameTimes() = default;
  // A frame every 1 / fps seconds.
  FrameTimes(int64_t frames, double fps, int64_t end) : even_(frames), end_(end), fps_(fps) {}

  void push(int64_t microseconds) { times_.push_back(microseconds); }
  // How many are known; of a whole film one more than it has frames.
  int64_t known() const { return even_ > 0 ? even_ + 1 : static_cast<int64_t>(times_.size()); }
  int64_t at(int64_t frame) const;

  // The last frame of [from, end] that is shown no more than so many microseconds after `from`.
  int64_t last_within(int64_t from, int64_t end, int64_t microseconds) const;
  // The first of [first, end] that is shown no more than so many before `end`.
  int64_t first_within(int64_t first, int64_t end, int64_t microseconds) const;

 private:
  std::vector<int64_t> times_;
  int64_t even_ = 0, end_ = 0;  // even_: frames, 0 where times_ counts
  double fps_ = 0;
};

// When frame `i` of an even film is shown.
int64_t even_time(int64_t i, double fps);

// Adds to shots.json when the film ends (end_us) and, where its frames are not shown every 1 / fps, when they
// are (frame_times_us).
void write_frame_times(nlohmann::json& shots, const FilmClock& clock, double fps);

// What write_frame_times() has written; without it, by the rate. std::invalid_argument for what cannot be.
FrameTimes read_frame_times(const nlohmann::json& shots);

}  // namespace kinora::video
