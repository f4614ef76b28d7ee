#include "clip_plan.hpp"

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

std::vector<PlannedClip> plan_clips(const std::vector<int64_t>& cuts, int64_t frames, double fps,
                                    const PlanOptions& o) {
  const auto count = [&](double seconds) { return static_cast<int64_t>(seconds * fps); };
  const int64_t longest = std::max<int64_t>(1, count(o.max_seconds)), edge = count(o.edge_seconds);
  const int64_t stride = o.stride_seconds > 0 ? std::max<int64_t>(1, count(o.stride_seconds)) : longest;
  std::vector<int64_t> bounds{0};
  bounds.insert(bounds.end(), cuts.begin(), cuts.end());
  bounds.push_back(frames);
  std::vector<PlannedClip> plan;
  std::vector<Range> parts;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const Range whole{bounds[i], bounds[i + 1]}, shot{whole.first + edge, whole.end - edge};
    if (whole.end <= whole.first) continue;
    if (shot.end <= shot.first) {
      plan.push_back({whole, true});
      continue;
    }
    parts.clear();
    if (o.long_shots == "stride") {
      add_strides(shot, longest, stride, parts);
    } else if (o.long_shots == "truncate") {
      parts.push_back({shot.first, std::min(shot.end, shot.first + longest)});
    } else {
      add_equal(shot, longest, parts);
    }
    for (const Range& range : parts) {
      const int64_t length = range.end - range.first;
      plan.push_back({range, length < o.min_frames || static_cast<double>(length) / fps < o.min_seconds});
    }
  }
  return plan;
}

}  // namespace kinora::video
