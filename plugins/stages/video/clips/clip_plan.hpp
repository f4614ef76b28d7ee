#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kinora::video {

// Frames [first, end) of a film, by Decoder's indices.
struct Range {
  int64_t first = 0;
  int64_t end = 0;
  friend bool operator==(const Range&, const Range&) = default;
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
  bool too_short = false;
};

// In frames at `fps`, as plan_clips counts.
struct FrameCounts {
  FrameCounts(double fps, const PlanOptions& options);
  int64_t longest, stride, edge;
};

// Whether a clip of so many frames is too short.
bool too_short(int64_t frames, double fps, const PlanOptions& options);

// The clips of one shot, added to `out`: see plan_clips.
void plan_shot(const Range& shot, double fps, const PlanOptions& options, std::vector<PlannedClip>& out);

// The clips of a film whose shots begin at 0 and at each of `cuts` (ascending, within 0..frames), in order of
// their first frames.
//
//   equal     as few parts as keep to max_seconds, of equal length within a frame
//   stride    a clip of max_seconds at every stride from the shot's start, until one reaches its end: the
//   last
//             is shorter. A stride under max_seconds makes clips overlap, one above it leaves gaps
//   truncate  its first max_seconds
//
// A shot that its edges use up is one clip of the whole shot, too short. Every frame count is
// floor(seconds * fps), at least one frame for max_seconds and the stride.
std::vector<PlannedClip> plan_clips(const std::vector<int64_t>& cuts, int64_t frames, double fps,
                                    const PlanOptions& options);

}  // namespace kinora::video
