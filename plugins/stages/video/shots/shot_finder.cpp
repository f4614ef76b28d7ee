#include "shots/shot_finder.hpp"

#include <algorithm>

namespace kinora::video {
namespace {

std::vector<std::string> names_of(const ShotsPlan& plan) {
  std::vector<std::string> names;
  for (const auto& options : plan.detectors) names.push_back(options.name);
  return names;
}

bool measures_anything(const MeterOptions& needs) {
  return needs.hsv || needs.bins > 0 || needs.hash_size > 0 || needs.mean;
}

}  // namespace

ShotFinder::ShotFinder(const VideoInfo& video, const ShotsPlan& plan)
    : plan_(plan),
      rate_(nominal_frame_rate(video.average_fps.value())),
      decision_(names_of(plan), plan.decide, plan.tolerance) {
  MeterOptions needs;
  needs.hsv = false;
  needs.edge_kernel = static_cast<int>(plan.edge_kernel);
  for (const auto& options : plan.detectors) {
    detectors_.push_back(make_detector(options, rate_));
    settled_.emplace_back(options, rate_);
    found_.push_back(&detectors_.back()->cuts());
    detectors_.back()->require(needs);
  }
  if (measures_anything(needs))
    source_.emplace(FrameSize{video.width, video.height}, video.rotation, plan.downscale, needs);
}

void ShotFinder::push(const AVFrame& picture, const Moment& now) {
  const FrameMeasures measures = source_ ? source_->push(picture) : FrameMeasures{};
  for (const auto& detector : detectors_) detector->push(measures, now);
}

const CutDecision& ShotFinder::settle(const Moment& now) {
  std::vector<int64_t> settled;
  for (size_t i = 0; i < detectors_.size(); ++i) settled.push_back(settled_[i].after(*detectors_[i], now));
  decision_.advance(found_, settled);
  return decision_;
}

void ShotFinder::finish(const Moment& last) {
  for (const auto& detector : detectors_) detector->finish(last);
}

nlohmann::json ShotFinder::shots(const FilmClock& clock) const {
  const auto& times = clock.times();
  std::vector<NamedCuts> found;
  for (const auto& detector : detectors_) found.push_back({detector->name(), detector->cuts()});
  const auto cuts = decided_cuts(found, plan_.decide, plan_.tolerance);
  const auto decides = std::find_if(detectors_.begin(), detectors_.end(),
                                    [&](const auto& d) { return d->name() == plan_.decide; });
  nlohmann::json out{{"fps", rate_},
                     {"frames", times.size()},
                     {"cuts", cuts},
                     {"scores", (decides == detectors_.end() ? detectors_.front() : *decides)->scores()}};
  auto& cut_times = out["times_us"] = nlohmann::json::array();
  for (const int64_t cut : cuts) cut_times.push_back(times[static_cast<size_t>(cut)]);
  write_frame_times(out, clock, rate_);
  for (const auto& detector : detectors_)
    out["detectors"][detector->name()] = {{"cuts", detector->cuts()}, {"scores", detector->scores()}};
  return out;
}

std::string no_frame(const std::string& name, const std::string& damaged) {
  const std::string prefix = name + ": ";
  const std::string why = damaged.starts_with(prefix) ? damaged.substr(prefix.size()) : damaged;
  return prefix + "no frame could be decoded; " +
         (why.empty() ? "its video stream has no visible frame; fetch or re-encode the file" : why);
}

}  // namespace kinora::video
