// One decode of a film for everything that looks for its shots: any set of detectors, the frames that other stages will
// look at, the thumbnails of TransNetV2.
#pragma once

#include "kinora/run.hpp"
#include "kinora/sample.hpp"
#include "media.hpp"
#include "shots/shot_finder.hpp"

namespace kinora::video {

// Sets shots.json and what else the plan asks for. MediaError when nothing can be decoded.
void find_shots(Sample& film, const Media& media, const ShotsPlan& plan, const Run& run);

}  // namespace kinora::video
