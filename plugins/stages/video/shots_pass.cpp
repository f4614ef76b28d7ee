#include "shots_pass.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>

#include "decoder.hpp"
#include "frame_pipe.hpp"
#include "frame_sampler.hpp"
#include "measure_source.hpp"

namespace kinora::video {
namespace {

constexpr size_t kFramesAhead = 4;

using Detectors = std::vector<std::unique_ptr<ShotDetector>>;

MeterOptions needs_of(const Detectors& detectors, int64_t edge_kernel) {
  MeterOptions needs;
  needs.hsv = false;
  needs.edge_kernel = static_cast<int>(edge_kernel);
  for (const auto& detector : detectors) detector->require(needs);
  return needs;
}

bool measures_anything(const MeterOptions& needs) {
  return needs.hsv || needs.bins > 0 || needs.hash_size > 0 || needs.mean;
}

// Everything that takes a frame.
class Takers {
 public:
  Takers(const VideoInfo& video, const ShotsPlan& plan, Detectors& detectors) : detectors_(detectors) {
    const MeterOptions needs = needs_of(detectors, plan.edge_kernel);
    if (measures_anything(needs))
      source_.emplace(FrameSize{video.width, video.height}, video.rotation, plan.downscale, needs);
    if (plan.sample_every > 0) sampler_.emplace(video, plan.sample_every, plan.sample_height);
    if (plan.thumbnails) thumbnailer_.emplace(video.rotation);
  }

  void take(const AVFrame& picture, const Moment& now) {
    const FrameMeasures measures = source_ ? source_->push(picture) : FrameMeasures{};
    for (const auto& detector : detectors_) detector->push(measures, now);
    if (sampler_) sampler_->push(picture, now);
    if (thumbnailer_) thumbnailer_->push(picture);
  }

  void give(Sample& film, const std::vector<int64_t>& times) {
    if (thumbnailer_) {
      thumbnailer_->give(film);
      const auto* bytes = reinterpret_cast<const uint8_t*>(times.data());
      film.set_tensor("times_us", {bytes, bytes + times.size() * sizeof(int64_t)}, {static_cast<int64_t>(times.size())},
                      KINORA_DL_INT, 64);
    }
    if (!sampler_) return;
    auto facts = facts_of(film);
    facts["frames_at"] = sampler_->give(film);
    film.set("json", facts.dump());
  }

 private:
  Detectors& detectors_;
  std::optional<MeasureSource> source_;
  std::optional<FrameSampler> sampler_;
  std::optional<Thumbnailer> thumbnailer_;
};

// Times of all frames, in microseconds from the first.
class FilmClock {
 public:
  explicit FilmClock(Rational base) : base_(base) {}
  Moment next(int64_t pts) {
    if (times_.empty()) start_ = pts;
    times_.push_back(presentation_microseconds(pts, start_, base_.num, base_.den));
    return {static_cast<int64_t>(times_.size()) - 1, times_.back()};
  }
  const std::vector<int64_t>& times() const { return times_; }

 private:
  Rational base_;
  int64_t start_ = 0;
  std::vector<int64_t> times_;
};

void take_all(Decoder& decoder, FilmClock& clock, Takers& takers, const Run& run) {
  while (const Frame* frame = decoder.next()) {
    run.check_cancelled();
    takers.take(*frame->picture, clock.next(frame->pts));
  }
}

// The same with the taking in a thread of its own.
void take_all_beside(Decoder& decoder, FilmClock& clock, Takers& takers, const Run& run) {
  FramePipe pipe(kFramesAhead);
  std::exception_ptr failed;
  std::thread taking([&] {
    try {
      while (const auto frame = pipe.pull()) takers.take(*frame->picture, frame->when);
    } catch (...) {
      failed = std::current_exception();
      pipe.close();
    }
  });
  std::exception_ptr stopped;
  try {
    while (const Frame* frame = decoder.next()) {
      run.check_cancelled();
      if (!pipe.push(*frame->picture, clock.next(frame->pts))) break;
    }
  } catch (...) {
    stopped = std::current_exception();
  }
  pipe.close();
  taking.join();
  if (failed) std::rethrow_exception(failed);
  if (stopped) std::rethrow_exception(stopped);
}

nlohmann::json shots_json(const Detectors& detectors, const ShotsPlan& plan, const std::vector<int64_t>& times,
                          double rate) {
  std::vector<NamedCuts> found;
  for (const auto& detector : detectors) found.push_back({detector->name(), detector->cuts()});
  const auto cuts = decided_cuts(found, plan.decide, plan.tolerance);
  const auto decides = std::find_if(detectors.begin(), detectors.end(),
                                    [&](const auto& d) { return d->name() == plan.decide; });
  nlohmann::json out{{"fps", rate},
                     {"frames", times.size()},
                     {"cuts", cuts},
                     {"scores", (decides == detectors.end() ? detectors.front() : *decides)->scores()}};
  auto& cut_times = out["times_us"] = nlohmann::json::array();
  for (const int64_t cut : cuts) cut_times.push_back(times[static_cast<size_t>(cut)]);
  for (const auto& detector : detectors)
    out["detectors"][detector->name()] = {{"cuts", detector->cuts()}, {"scores", detector->scores()}};
  return out;
}

}  // namespace

void find_shots(Sample& film, const Media& media, const ShotsPlan& plan, const Run& run) {
  DecoderOptions decoding;
  decoding.threads = static_cast<int>(plan.threads);
  Decoder decoder(*media.source, media.name, decoding);
  const VideoInfo& video = decoder.probe().video;
  const double rate = nominal_frame_rate(video.average_fps.value());
  Detectors detectors;
  for (const auto& options : plan.detectors) detectors.push_back(make_detector(options, rate));
  Takers takers(video, plan, detectors);
  FilmClock clock(decoder.time_base());
  (plan.threads > 1 ? take_all_beside : take_all)(decoder, clock, takers, run);
  const auto& times = clock.times();
  if (times.empty()) throw MediaError(media.name + ": no frame could be decoded; " + decoder.damaged());
  for (const auto& detector : detectors) detector->finish({static_cast<int64_t>(times.size()) - 1, times.back()});
  nlohmann::json shots = shots_json(detectors, plan, times, rate);
  if (const auto damage = decoder.damaged(); !damage.empty()) shots["damaged"] = damage;
  film.set("shots.json", shots.dump());
  takers.give(film, times);
}

}  // namespace kinora::video
