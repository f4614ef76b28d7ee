#pragma once

// One clip of a film on its way into an MP4: the frames with their own timing, and the sound that belongs to
// them.

#include <algorithm>
#include <cmath>
#include <vector>

#include "audio_reader.hpp"
#include "convert.hpp"
#include "encoder.hpp"
#include "transcode.hpp"

namespace kinora::video {

struct Size {
  int width, height;
};

// Upright, at most max_height lines, the aspect kept.
inline Size clip_size(const AVFrame& picture, int rotation, int max_height) {
  Size size{picture.width, picture.height};
  if (rotation % 180 != 0) std::swap(size.width, size.height);
  if (max_height <= 0 || size.height <= max_height) return size;
  const double ratio = static_cast<double>(max_height) / size.height;
  return {std::max(2, 2 * static_cast<int>(std::lround(size.width * ratio / 2))), max_height};
}

// Primaries and transfer pass; an untagged matrix is written as what it was taken for, because the clip's
// size may make readers guess otherwise.
inline Colour clip_colour(const AVFrame& picture) {
  Colour colour = Colour::of(picture);
  colour.matrix = matrix_of(picture);
  colour.range = AVCOL_RANGE_MPEG;
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(picture.format));
  if (format != nullptr && (format->flags & AV_PIX_FMT_FLAG_RGB) != 0) colour = {1, 1, 1, 1};
  return colour;
}

inline EncoderOptions encoder_options(const Frame& first, const Probe& film, const AudioReader* audio,
                                      const TranscodeOptions& options) {
  const AVFrame& picture = *first.picture;
  const Size size = clip_size(picture, film.video.rotation, options.max_height);
  EncoderOptions encoder;
  encoder.width = size.width;
  encoder.height = size.height;
  encoder.fps = film.video.fps.num > 0 ? film.video.fps : Rational{25, 1};
  encoder.time_base = film.video.time_base;
  encoder.crf = options.crf;
  encoder.preset = options.preset;
  encoder.threads = options.threads;
  encoder.colour = clip_colour(picture);
  encoder.sample_aspect = film.video.sample_aspect;
  encoder.turn = film.video.rotation;
  if (encoder.turn % 180 != 0) std::swap(encoder.sample_aspect.num, encoder.sample_aspect.den);
  if (audio != nullptr) encoder.audio = {audio->rate(), audio->channels(), 0};
  encoder.metadata = options.metadata;
  return encoder;
}

// [owner-thread] The audio reader (null: no sound) is borrowed and moves forward.
class ClipWriter {
 public:
  ClipWriter(const Frame& first, const Probe& film, AudioReader* audio, const TranscodeOptions& options)
      : base_(film.video.time_base),
        start_(first.pts),
        audio_(audio),
        encoder_(encoder_options(first, film, audio, options)) {
    if (audio_ != nullptr) audio_done_ = sample_at(start_);
  }

  // False when the clip would span over an hour or start years from zero: what a broken timestamp could ask
  // for in silence has a bound.
  bool credible(int64_t pts) const {
    const double at = static_cast<double>(pts) * base_.value(),
                 start = static_cast<double>(start_) * base_.value();
    return at - start <= kLongestClip && std::abs(start) <= kLatestClip;
  }

  void add(const Frame& frame) {
    encoder_.write(*frame.picture, frame.pts - start_);
    write_audio(frame.pts);
    ++frames_;
  }

  Clip finish(int64_t end_pts) {
    write_audio(end_pts);
    Clip clip;
    clip.bytes = encoder_.finish(end_pts - start_);
    clip.frames = frames_;
    return clip;
  }

 private:
  static constexpr double kLongestClip = 3600, kLatestClip = 1e8;  // seconds
  static constexpr int64_t kAudioChunk = 1 << 16;                  // samples

  int64_t sample_at(int64_t pts) const {
    return av_rescale_q(pts, {base_.num, base_.den}, {1, audio_->rate()});
  }

  void write_audio(int64_t until_pts) {
    if (audio_ == nullptr) return;
    const int64_t until = sample_at(until_pts);
    if (audio_->ended() && audio_written_) return;  // the film's sound is over, so is the clip's
    while (audio_done_ < until) {
      const int64_t count = std::min(kAudioChunk, until - audio_done_);
      audio_->read(audio_done_, count, planes_);
      std::vector<const float*> planes;
      for (const auto& plane : planes_) planes.push_back(plane.data());
      encoder_.write_audio(planes.data(), count);
      audio_done_ += count;
      audio_written_ = true;
    }
  }

  Rational base_;
  int64_t start_;  // pts of the first frame
  AudioReader* audio_;
  Encoder encoder_;
  int64_t audio_done_ = 0;  // the next sample to write, on the film's clock
  bool audio_written_ = false;
  int64_t frames_ = 0;
  std::vector<std::vector<float>> planes_;
};

}  // namespace kinora::video
