// The shots of one video with the outcomes of their clips.
#include <algorithm>

#include "apps/studio/query.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

constexpr size_t kPoints = 600;

struct Shot {
  double first, end;      // frames
  double start_s, end_s;  // presentation time
  json clips = json::array();
};

double number(const json& object, const char* name, double otherwise) {
  const auto at = object.find(name);
  return at != object.end() && at->is_number() ? at->get<double>() : otherwise;
}

// The range of each shot. Times come from the file where they were recorded, else from the rate.
std::vector<Shot> shots_of(const json& shots) {
  const double fps = number(shots, "fps", 0), frames = number(shots, "frames", 0);
  std::vector<Shot> out;
  const json cuts = shots.value("cuts", json::array()), times = shots.value("times_us", json::array());
  const auto seconds = [&](double frame) { return fps > 0 ? frame / fps : 0; };
  Shot now{0, frames, 0, seconds(frames)};
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (!cuts[i].is_number()) continue;
    const double cut = cuts[i].get<double>();
    now.end = cut;
    now.end_s = i < times.size() && times[i].is_number() ? times[i].get<double>() / 1e6 : seconds(cut);
    out.push_back(now);
    now = {cut, frames, now.end_s, seconds(frames)};
  }
  if (frames > now.first) out.push_back(now);
  return out;
}

json curve_of(const json& scores) {
  json out = json::array();
  const size_t n = scores.size(), parts = std::min(n, kPoints);
  for (size_t p = 0; p < parts; ++p) {
    double largest = 0;
    for (size_t i = p * n / parts; i < (p + 1) * n / parts; ++i)
      if (scores[i].is_number()) largest = std::max(largest, scores[i].get<double>());
    out.push_back(largest);
  }
  return out;
}

json clip_json(const Clip& clip, const EditsOf& edits) {
  return {{"id", clip.id}, {"end", outcome_of(clip)}, {"decision", decision_of(edits(clip))}};
}

}  // namespace

json timeline(const Catalogue& catalogue, const EditsOf& edits, size_t job, const std::string& video,
              const json& line) {
  const json shots = line.is_object() && line.contains("shots") && line["shots"].is_object() ? line["shots"]
                                                                                             : json::object();
  std::vector<Shot> ranges = shots_of(shots);
  const bool has_shots = !ranges.empty();
  double length = has_shots ? ranges.back().end_s : 0;
  for (size_t i = 0; i < catalogue.clips.size(); ++i) {
    const Clip& clip = catalogue.clips[i];
    if (clip.job != job || clip.video != video) continue;
    const double first = catalogue.value("first_frame", i);
    if (std::isnan(first)) continue;
    if (!has_shots) {
      const double end_s = catalogue.value("end_s", i);
      ranges.push_back({first, catalogue.value("end_frame", i), catalogue.value("start_s", i), end_s,
                        json::array({clip_json(clip, edits)})});
      length = std::max(length, std::isnan(end_s) ? 0 : end_s);
      continue;
    }
    auto after = std::upper_bound(ranges.begin(), ranges.end(), first,
                                  [](double frame, const Shot& shot) { return frame < shot.first; });
    if (after != ranges.begin()) std::prev(after)->clips.push_back(clip_json(clip, edits));
  }
  json list = json::array();
  for (const auto& s : ranges)
    list.push_back(
        {{"first", s.first}, {"end", s.end}, {"start_s", s.start_s}, {"end_s", s.end_s}, {"clips", s.clips}});
  return {{"video", video},
          {"fps", number(shots, "fps", 0)},
          {"frames", number(shots, "frames", 0)},
          {"length_s", length},
          {"shots", std::move(list)},
          {"curve", curve_of(shots.value("scores", json::array()))}};
}

}  // namespace kinora::studio
