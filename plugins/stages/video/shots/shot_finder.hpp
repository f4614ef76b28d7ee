// The shots of a film from its frames, as they are decoded: any set of detectors, and whose cuts count.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "shots/decided_cuts.hpp"
#include "shots/measure_source.hpp"
#include "media/probe.hpp"
#include "shots/frame_times.hpp"
#include "shots/settled_frames.hpp"
#include "shots/shot_detector.hpp"

namespace kinora::video {

struct ShotsPlan {
  std::vector<DetectorOptions> detectors;
  std::string decide = "any";  // any, all, or a detector's name: whose cuts are the film's
  int64_t tolerance = 0;       // of any and all: frames within which cuts count as one
  int64_t edge_kernel = 0;     // pixels; 0: by the size
  int64_t downscale = 0;       // see measured_size()
  int64_t threads = 1;         // of the decoder; from 2 on, another one measures
  double sample_every = 0;     // seconds; 0: no frames
  int64_t sample_height = 0;
  bool thumbnails = false;
};

// [owner-thread]
class ShotFinder {
 public:
  // The plan is borrowed. Frames for other stages are no matter of this class.
  ShotFinder(const VideoInfo& video, const ShotsPlan& plan);

  // The next frame.
  void push(const AVFrame& picture, const Moment& now);
  // What is decided for good of the frames so far: see CutDecision.
  const CutDecision& settle(const Moment& now);
  void finish(const Moment& last);

  double rate() const { return rate_; }
  // After finish(): the field shots.json of a film whose frames have these times.
  nlohmann::json shots(const FilmClock& clock) const;

 private:
  const ShotsPlan& plan_;
  double rate_;  // nominal
  std::vector<std::unique_ptr<ShotDetector>> detectors_;
  std::vector<SettledFrames> settled_;
  std::vector<const std::vector<int64_t>*> found_;
  CutDecision decision_;
  std::optional<MeasureSource> source_;
};

// What to say of a film of which no frame came out; damaged: Decoder::damaged().
std::string no_frame(const std::string& name, const std::string& damaged);

}  // namespace kinora::video
