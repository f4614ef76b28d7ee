#pragma once

// Writes one clip of a video into an MP4: the frames with their own timing, and their sound.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "clips/clip_sampler.hpp"
#include "clips/feed.hpp"
#include "clips/transcode.hpp"
#include "media/convert.hpp"
#include "media/encoder.hpp"

namespace kinora::video {

struct Size {
  int width, height;
};

// Size of the clip: upright, at most max_height lines, same aspect.
inline Size clip_size(int width, int height, Orientation rotation, int max_height) {
  Size size{width, height};
  if (rotation.swaps_sides()) std::swap(size.width, size.height);
  if (max_height <= 0 || size.height <= max_height) return size;
  const double ratio = static_cast<double>(max_height) / size.height;
  return {std::max(2, 2 * static_cast<int>(std::lround(size.width * ratio / 2))), max_height};
}

// Keeps primaries and transfer. Writes the assumed matrix of untagged frames, because readers may assume
// another one for the clip's size.
inline Colour clip_colour(const AVFrame& picture) {
  Colour colour = Colour::of(picture);
  colour.matrix = matrix_of(picture);
  colour.range = AVCOL_RANGE_MPEG;
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(picture.format));
  if (format != nullptr && (format->flags & AV_PIX_FMT_FLAG_RGB) != 0) colour = {1, 1, 1, 1};
  return colour;
}

// The video as its headers would say if they were of this frame.
inline Probe seen_from(const Probe& probe, const AVFrame& frame) {
  Probe out = probe;
  out.video.width = frame.width;
  out.video.height = frame.height;
  out.video.sample_aspect = PictureForm::of(frame).sample_aspect;
  return out;
}

// picture: a frame of the video, cropped to `crop`.
inline EncoderOptions encoder_options(const AVFrame& picture, const Crop& crop, const Probe& probe,
                                      const AudioFormat& sound, const TranscodeOptions& options) {
  const Size size = crop.empty()
                        ? clip_size(picture.width, picture.height, probe.video.rotation, options.max_height)
                        : clip_size(crop.width, crop.height, probe.video.rotation, options.max_height);
  EncoderOptions encoder;
  encoder.width = size.width;
  encoder.height = size.height;
  encoder.fps = probe.video.fps.num > 0 ? probe.video.fps : Rational{25, 1};
  encoder.time_base = probe.video.time_base;
  encoder.crf = options.crf;
  encoder.preset = options.preset;
  encoder.threads = options.threads;
  encoder.codec = options.encoder;
  encoder.colour = clip_colour(picture);
  encoder.sample_aspect = probe.video.sample_aspect;
  encoder.turn = probe.video.rotation;
  if (encoder.turn.swaps_sides()) std::swap(encoder.sample_aspect.num, encoder.sample_aspect.den);
  encoder.audio = sound;
  encoder.metadata = options.metadata;
  return encoder;
}

inline Crop video_crop(const TranscodeOptions& options, const Probe& probe) {
  const VideoInfo& v = probe.video;
  return options.crop.empty() ? Crop{} : stored_crop(options.crop, v.width, v.height, v.rotation);
}

// Returns the clip's frame sampler, if the options request one.
inline std::unique_ptr<ClipSampler> new_sampler(const TranscodeOptions& o, const Probe& probe) {
  if (o.sample_fps <= 0) return nullptr;
  return std::make_unique<ClipSampler>(probe.video, video_crop(o, probe), o.sample_fps, o.sample_height,
                                       o.memory);
}

inline std::vector<const float*> pointers(const Planes& planes) {
  std::vector<const float*> out;
  for (const auto& plane : planes) out.push_back(plane.data());
  return out;
}

// Limits the silence that a broken timestamp could require: false if a clip that starts at `start` ticks
// would span over an hour up to `pts`, or starts years from zero.
inline bool credible(int64_t start, int64_t pts, Rational time_base) {
  constexpr double kLatestClip = 1e8;  // seconds
  const double at = static_cast<double>(pts) * time_base.value(),
               from = static_cast<double>(start) * time_base.value();
  return at - from <= kLongestClip && std::abs(from) <= kLatestClip;
}

// [owner-thread] sound: a rate of 0 means none.
class ClipWriter {
 public:
  ClipWriter(const AVFrame& first, int64_t first_pts, const Probe& probe, const AudioFormat& sound,
             const TranscodeOptions& options)
      : ClipWriter(first, first_pts, sound, options, seen_from(probe, first)) {}

  const PictureForm& form() const { return form_; }

  bool credible(int64_t pts) const { return video::credible(start_, pts, base_); }

  void add(const AVFrame& picture, int64_t pts) {
    encoder_.write(crop_.empty() ? picture : *cropped(picture, crop_), pts - start_);
    if (sampler_) sampler_->offer(picture, static_cast<double>(pts - start_) * base_.value());
    ++frames_;
  }

  void add_sound(const Planes& planes) {
    encoder_.write_audio(pointers(planes).data(), static_cast<int64_t>(planes.front().size()));
  }

  Clip finish(int64_t end_pts) {
    Clip clip;
    clip.bytes = encoder_.finish(end_pts - start_);
    clip.frames = frames_;
    if (sampler_) clip.samples = sampler_->take();
    return clip;
  }

 private:
  ClipWriter(const AVFrame& first, int64_t first_pts, const AudioFormat& sound,
             const TranscodeOptions& options, const Probe& probe)
      : form_(PictureForm::of(first)),
        base_(probe.video.time_base),
        start_(first_pts),
        crop_(video_crop(options, probe)),
        encoder_(encoder_options(first, crop_, probe, sound, options)),
        sampler_(new_sampler(options, probe)) {}

  PictureForm form_;  // of the first frame
  Rational base_;
  int64_t start_;  // pts of the first frame
  Crop crop_;
  Encoder encoder_;
  std::unique_ptr<ClipSampler> sampler_;
  int64_t frames_ = 0;
};

}  // namespace kinora::video
