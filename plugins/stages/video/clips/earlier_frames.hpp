#pragma once

#include <cstdint>
#include <optional>

#include "clips/clip_sampler.hpp"
#include "kinora/sample.hpp"

namespace kinora::video {

// Returns the frames that ClipSampler would take from a sample's video at `fps` per second, scaled to `height` pixels, from
// the tensor `frames` of an earlier stage. Empty if those frames are too few, too low or without times, or if the result
// would exceed `most` bytes.
std::optional<SampledFrames> earlier_frames(const Sample& sample, double fps, int64_t height, int64_t most);

}  // namespace kinora::video
