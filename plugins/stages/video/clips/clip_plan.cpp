#include "clips/clip_plan.hpp"

#include <algorithm>

namespace kinora::video {
namespace {

void add_equal(const Range& shot, int64_t longest, std::vector<Range>& out) {
  const int64_t length = shot.end - shot.first, parts = (length + longest - 1) / longest;
  for (int64_t p = 0; p < parts; ++p)
    out.push_back({shot.first + length * p / parts, shot.first + length * (p + 1) / parts});
}

void add_strides(const Range& shot, int64_t longest, int64_t stride, std::vector<Range>& out) {
  for (int64_t first = shot.first; first < shot.end; first += stride) {
    out.push_back({first, std::min(first + longest, shot.end)});
    if (out.back().end == shot.end) return;
  }
}

}  // namespace

FrameCounts::FrameCounts(double fps, const PlanOptions& o) {
  const auto count = [&](double seconds) { return static_cast<int64_t>(seconds * fps); };
  longest = std::max<int64_t>(1, count(o.max_seconds));
  edge = count(o.edge_seconds);
  stride = o.stride_seconds > 0 ? std::max<int64_t>(1, count(o.stride_seconds)) : longest;
}

bool too_short(int64_t frames, double fps, const PlanOptions& o) {
  return frames < o.min_frames || static_cast<double>(frames) / fps < o.min_seconds;
}

void plan_shot(const Range& whole, double fps, const PlanOptions& o, std::vector<PlannedClip>& out) {
  if (whole.end <= whole.first) return;
  const FrameCounts counts(fps, o);
  const Range shot{whole.first + counts.edge, whole.end - counts.edge};
  if (shot.end <= shot.first) return out.push_back({whole, true});
  std::vector<Range> parts;
  if (o.long_shots == "stride") {
    add_strides(shot, counts.longest, counts.stride, parts);
  } else if (o.long_shots == "truncate") {
    parts.push_back({shot.first, std::min(shot.end, shot.first + counts.longest)});
  } else {
    add_equal(shot, counts.longest, parts);
  }
  for (const Range& range : parts) out.push_back({range, too_short(range.end - range.first, fps, o)});
}

std::vector<PlannedClip> plan_clips(const std::vector<int64_t>& cuts, int64_t frames, double fps,
                                    const PlanOptions& o) {
  std::vector<PlannedClip> plan;
  int64_t first = 0;
  for (const int64_t cut : cuts) {
    plan_shot({first, cut}, fps, o, plan);
    first = cut;
  }
  plan_shot({first, frames}, fps, o, plan);
  return plan;
}

}  // namespace kinora::video
