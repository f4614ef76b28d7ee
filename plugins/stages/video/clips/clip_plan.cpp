#include "clips/clip_plan.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace kinora::video {
namespace {

constexpr int64_t kRounding = 1;   // rounding error of a difference of two times, microseconds
constexpr int64_t kMoreParts = 8;  // further parts to try if equal ones exceed the longest

int64_t microseconds(double seconds) {
  constexpr double kLatest = 4e18;
  return seconds > 0 ? std::llround(std::min(seconds * 1e6, kLatest)) : 0;
}

class ShotPlan {
 public:
  ShotPlan(const Range& shot, const FrameTimes& times, const PlanTimes& limits)
      : shot_(shot), times_(times), limits_(limits) {}

  std::vector<Range> strides(int64_t stride) const {
    std::vector<Range> out;
    for (int64_t first = shot_.first; first < shot_.end; first = after(first, stride)) {
      out.push_back({first, after(first, limits_.longest)});
      if (out.back().end == shot_.end) break;
    }
    return out;
  }

  std::vector<Range> equal() const {
    auto greedy = strides(limits_.longest);  // the fewest parts that respect the longest
    const auto fewest = static_cast<int64_t>(greedy.size());
    for (int64_t parts = fewest; parts <= fewest + kMoreParts; ++parts)
      if (auto out = equal(parts)) return std::move(*out);
    return greedy;
  }

  std::vector<Range> truncated() const { return {{shot_.first, after(shot_.first, limits_.longest)}}; }

 private:
  int64_t after(int64_t first, int64_t length) const {
    return std::max(first + 1, times_.last_within(first, shot_.end, length));
  }

  // Empty if one of the parts is too long.
  std::optional<std::vector<Range>> equal(int64_t parts) const {
    const int64_t length = times_.at(shot_.end) - times_.at(shot_.first);
    std::vector<Range> out;
    int64_t first = shot_.first;
    for (int64_t p = 1; p <= parts; ++p) {
      const int64_t until = length / parts * p + length % parts * p / parts + 3 * kRounding;
      const int64_t end = p == parts ? shot_.end : times_.last_within(shot_.first, shot_.end, until);
      if (end <= first) continue;
      if (end > after(first, limits_.longest)) return std::nullopt;
      out.push_back({first, end});
      first = end;
    }
    return out;
  }

  const Range shot_;
  const FrameTimes& times_;
  const PlanTimes& limits_;
};

PlannedClip planned(const Range& range, const FrameTimes& times, bool short_) {
  return {range, {times.at(range.first), times.at(range.end)}, short_};
}

}  // namespace

PlanTimes::PlanTimes(const PlanOptions& o)
    : longest(microseconds(o.max_seconds) + kRounding),
      stride(o.stride_seconds > 0 ? microseconds(o.stride_seconds) + kRounding : longest),
      edge(o.edge_seconds > 0 ? microseconds(o.edge_seconds) + kRounding : 0),
      shortest(microseconds(o.min_seconds) - kRounding) {}

bool too_short(const Range& range, const FrameTimes& times, const PlanOptions& o) {
  return range.end - range.first < o.min_frames ||
         times.at(range.end) - times.at(range.first) < PlanTimes(o).shortest;
}

void plan_shot(const Range& whole, const FrameTimes& times, const PlanOptions& o,
               std::vector<PlannedClip>& out) {
  if (whole.end <= whole.first) return;
  const PlanTimes limits(o);
  const int64_t first = times.last_within(whole.first, whole.end, limits.edge);
  const Range shot{first, times.first_within(first, whole.end, limits.edge)};
  if (shot.end <= shot.first) return out.push_back(planned(whole, times, true));
  const ShotPlan plan(shot, times, limits);
  const auto parts = o.long_shots == "stride"     ? plan.strides(limits.stride)
                     : o.long_shots == "truncate" ? plan.truncated()
                                                  : plan.equal();
  for (const Range& range : parts) out.push_back(planned(range, times, too_short(range, times, o)));
}

Range without_transitions(const Range& shot, const std::vector<Range>& transitions) {
  Range out = shot;
  const auto end_of = [](const Range& t, int64_t cut) { return t.end < cut; };
  const auto holds = [&](auto t, int64_t cut) { return t != transitions.end() && t->first <= cut; };
  const auto first = std::lower_bound(transitions.begin(), transitions.end(), shot.first, end_of);
  const auto last = std::lower_bound(transitions.begin(), transitions.end(), shot.end, end_of);
  if (holds(first, shot.first)) out.first = first->end;
  if (holds(last, shot.end)) out.end = last->first;
  return out;
}

std::vector<PlannedClip> plan_clips(const std::vector<int64_t>& cuts, const FrameTimes& times,
                                    const PlanOptions& o, const std::vector<Range>& transitions) {
  std::vector<PlannedClip> plan;
  int64_t first = 0;
  for (const int64_t cut : cuts) {
    plan_shot(without_transitions({first, cut}, transitions), times, o, plan);
    first = cut;
  }
  plan_shot(without_transitions({first, times.known() - 1}, transitions), times, o, plan);
  return plan;
}

}  // namespace kinora::video
