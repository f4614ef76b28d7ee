#include "clips/clip_sampler.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::video {
namespace {

constexpr double kTimeRounding = 1e-6;  // seconds; rounding error of a time base

ScalerOptions scaling(const ShownSize& size, Orientation rotation) {
  ScalerOptions o;
  o.width = size.width;
  o.height = size.height;
  o.rotation = rotation;
  return o;
}

}  // namespace

ShownSize shown_size(const VideoInfo& video, const Crop& stored, int64_t height) {
  const double aspect = video.sample_aspect.value();
  const double w = (stored.empty() ? video.width : stored.width) * aspect;
  const double h = stored.empty() ? video.height : stored.height;
  const bool turned = video.rotation.swaps_sides();
  const double wide = turned ? h : w, high = turned ? w : h;
  const double scale = height > 0 ? static_cast<double>(height) / high : 1;
  const auto side = [](double pixels) { return std::max(1, static_cast<int>(std::lround(pixels))); };
  return {side(wide * scale), side(high * scale)};
}

ClipSampler::ClipSampler(const VideoInfo& video, const Crop& stored, double fps, int64_t height, int64_t most)
    : crop_(stored),
      fps_(fps),
      most_(static_cast<size_t>(most)),
      size_(shown_size(video, stored, height)),
      scaler_(scaling(size_, video.rotation)) {
  out_.height = size_.height;
  out_.width = size_.width;
}

void ClipSampler::offer(const AVFrame& frame, double seconds) {
  if (seconds + kTimeRounding < static_cast<double>(next_) / fps_) return;
  next_ = static_cast<int64_t>(std::floor((seconds + kTimeRounding) * fps_)) + 1;
  const size_t bytes = static_cast<size_t>(size_.width) * static_cast<size_t>(size_.height) * 3;
  if (out_.pixels.size() + bytes > most_)
    throw TooManySamples("more than " + std::to_string(most_ >> 20) +
                         " MiB of sampled frames; lower sample_fps or sample_height, or raise memory");
  out_.pixels.resize(out_.pixels.size() + bytes);
  uint8_t* to = out_.pixels.data() + out_.pixels.size() - bytes;
  scaler_.bytes(*cropped(frame, crop_), to);
  out_.at.push_back(seconds);
}

}  // namespace kinora::video
