#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shots/frame_times.hpp"

namespace kinora::video {

// Frames [first, end) of a film, by Decoder's indices.
struct Range {
  int64_t first = 0;
  int64_t end = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

// When a clip begins and ends, in microseconds from the film's first frame.
struct ClipSpan {
  int64_t start_us = 0, end_us = 0;
};

struct PlanOptions {
  double min_seconds = 0;  // a clip shorter than either minimum is too short
  int64_t min_frames = 0;
  double max_seconds = 60;
  std::string long_shots = "equal";  // what a shot over max_seconds becomes, see plan_clips
  double stride_seconds = 0;         // of "stride": from one clip's start to the next; 0: max_seconds
  double edge_seconds = 0;           // taken off both ends of every shot
};

struct PlannedClip {
  Range range;
  ClipSpan span;
  bool too_short = false;
};

// The options' lengths as times between frames: what falls on a limit, but for the rounding of times, keeps
// to it.
struct PlanTimes {
  explicit PlanTimes(const PlanOptions& options);
  int64_t longest, stride, edge, shortest;  // microseconds
};

// Whether a clip of these frames is too short.
bool too_short(const Range& range, const FrameTimes& times, const PlanOptions& options);

// The clips of one shot, added to `out`: see plan_clips.
void plan_shot(const Range& shot, const FrameTimes& times, const PlanOptions& options,
               std::vector<PlannedClip>& out);

// The clips of a film whose shots begin at 0 and at each of `cuts` (ascending, within the film), in order of
// their first frames.
//
//   equal     as few parts as keep to max_seconds, of equal length within a frame; strides where the
//             frames last too long for that
//   stride    a clip of max_seconds at every stride from the shot's start, until one reaches its end:
//             the last is shorter. A stride under max_seconds makes clips overlap, one above it leaves gaps
//   truncate  its first max_seconds
//
// A shot that its edges use up is one clip of the whole shot, too short. Lengths are those between
// presentation times: as many frames as keep to a length, but at least one for max_seconds and the stride. At
// a constant rate that is floor(seconds * fps).
std::vector<PlannedClip> plan_clips(const std::vector<int64_t>& cuts, const FrameTimes& times,
                                    const PlanOptions& options);

}  // namespace kinora::video
