// Time as PySceneDetect 0.7.2 measures it, so that minimum lengths mean the same: a nominal rate from the container, and
// presentation times in whole microseconds. A length in frames is a length in time at the nominal rate. In a video of
// variable rate, or in a container that rounds times to milliseconds, it is not a count of frames.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kinora::video {

// The rate that PySceneDetect uses for a container's `frames_per_second` (OpenCV takes the stream's avg_frame_rate, or
// 1 / time_base if that is unknown): a whole number unchanged; within 1e-3 of N * 1000/1001 that fraction; else the nearest
// fraction with a denominator up to 10000. 0 for a value that is not above 1e-9 or not finite.
double nominal_frame_rate(double frames_per_second);

// Presentation time in microseconds, as OpenCV reports it (milliseconds, a double) and PySceneDetect rounds it (half to
// even). `pts` and `start`, the stream's start, count time_base_numerator / time_base_denominator seconds.
int64_t presentation_microseconds(int64_t pts, int64_t start, int time_base_numerator,
                                  int time_base_denominator);

// A frame's index and its time from the start of the video.
struct Moment {
  int64_t frame = 0;
  int64_t microseconds = 0;
};

// Time between two moments, not below 0, in frames of the nominal rate, rounded half to even.
int64_t nominal_frames_between(const Moment& from, const Moment& to, double rate);

// Multiples of a time in whole microseconds: each is due at the first frame at or after it. Several multiples within one
// gap between frames count once.
class EvenTimes {
 public:
  // first: the first multiple, 0 or 1.
  EvenTimes(double seconds, int64_t first) : microseconds_(std::max(1.0, seconds * 1e6)), next_(first) {}
  bool due(int64_t microseconds);

 private:
  double at(int64_t n) const;
  double microseconds_;
  int64_t next_;
};

}  // namespace kinora::video
