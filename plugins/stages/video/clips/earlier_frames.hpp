#pragma once

#include <cstdint>
#include <optional>

#include "clips/clip_sampler.hpp"
#include "kinora/sample.hpp"

namespace kinora::video {

// The frames that ClipSampler would take of a sample's video, `fps` a second, out of the tensor `frames` that
// an earlier stage has left, scaled to `height` pixels. Nothing where these are too few, lower or without
// times, or the result would be more than `most` bytes.
std::optional<SampledFrames> earlier_frames(const Sample& sample, double fps, int64_t height, int64_t most);

}  // namespace kinora::video
