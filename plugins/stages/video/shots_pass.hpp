// One decode of a film for everything that looks for its shots: any set of detectors, the frames that other stages will
// look at, the thumbnails of TransNetV2.
#pragma once

#include <string>
#include <vector>

#include "decided_cuts.hpp"
#include "kinora/run.hpp"
#include "kinora/sample.hpp"
#include "media.hpp"
#include "shot_detector.hpp"

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

// Sets shots.json and what else the plan asks for. MediaError when nothing can be decoded.
void find_shots(Sample& film, const Media& media, const ShotsPlan& plan, const Run& run);

}  // namespace kinora::video
