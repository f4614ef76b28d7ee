// The detector transnetv2: TransNet V2 on the frames of a video as they are decoded, and its cuts.
#pragma once
#include <memory>

#include "shots/shot_detector.hpp"

namespace kinora::video {

// options.network must be set.
std::unique_ptr<ShotDetector> make_network_detector(const DetectorOptions& options);

}  // namespace kinora::video
