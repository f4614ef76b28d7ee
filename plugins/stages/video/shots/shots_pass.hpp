// Decodes a video once to find its shots with any set of detectors, and to sample frames for other stages and
// thumbnails for TransNetV2.
#pragma once

#include "kinora/run.hpp"
#include "kinora/sample.hpp"
#include "media/sample_media.hpp"
#include "shots/shot_finder.hpp"

namespace kinora::video {

// Sets shots.json and the other outputs that the plan requests. MediaError if nothing can be decoded.
void find_shots(Sample& sample, const Media& media, const ShotsPlan& plan, const Run& run);

}  // namespace kinora::video
