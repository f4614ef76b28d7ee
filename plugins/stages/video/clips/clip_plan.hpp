#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "media/decoder.hpp"
#include "shots/frame_times.hpp"

namespace kinora::video {

// Start and end of a clip, in microseconds from the video's first frame.
struct ClipSpan {
  int64_t start_us = 0, end_us = 0;
};

struct PlanOptions {
  double min_seconds = 0;  // a clip shorter than either minimum is too short
  int64_t min_frames = 0;
  double max_seconds = 60;
  std::string long_shots = "equal";  // how a shot over max_seconds is cut, see plan_clips
  double stride_seconds = 0;         // with "stride": from one clip's start to the next; 0: max_seconds
  double edge_seconds = 0;           // removed at both ends of every shot
};

struct PlannedClip {
  Range range;
  ClipSpan span;
  bool too_short = false;
};

// The options' lengths as times between frames. A length that equals a limit up to the rounding of times is
// within it.
struct PlanTimes {
  explicit PlanTimes(const PlanOptions& options);
  int64_t longest, stride, edge, shortest;  // microseconds
};

// Whether a clip of these frames is too short.
bool too_short(const Range& range, const FrameTimes& times, const PlanOptions& options);

// Appends the clips of one shot to `out`; see plan_clips.
void plan_shot(const Range& shot, const FrameTimes& times, const PlanOptions& options,
               std::vector<PlannedClip>& out);

// Frames of a shot [first, end) between two cuts, or a cut and an end of the video, without those transitions that
// hold one of its ends: [t.first, t.end) holds a cut c if t.first <= c <= t.end. May be empty. transitions: ascending.
Range without_transitions(const Range& shot, const std::vector<Range>& transitions);

// Returns the clips of a video whose shots begin at 0 and at each of `cuts` (ascending, within the video), in order of
// their first frames; the frames of transitions are in none. Rules for shots over max_seconds (long_shots):
//
//   equal     the fewest parts within max_seconds, of equal length up to a frame; strides if the frames last
//             too long for that
//   stride    a clip of max_seconds at every stride from the shot's start, until one reaches its end:
//             the last is shorter. A stride below max_seconds makes clips overlap, one above it leaves gaps
//   truncate  the first max_seconds
//
// A shot that consists only of its edges is planned as one clip, which is too short. Lengths are differences of
// presentation times: as many frames as fit into a length, but at least one for max_seconds and the stride. At a
// constant rate that is floor(seconds * fps).
std::vector<PlannedClip> plan_clips(const std::vector<int64_t>& cuts, const FrameTimes& times,
                                    const PlanOptions& options, const std::vector<Range>& transitions = {});

}  // namespace kinora::video
