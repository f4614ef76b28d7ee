// The data that a clip receives, in the order of its frames: pictures and sound.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "media/audio_reader.hpp"
#include "media/convert.hpp"
#include "media/encoder.hpp"
#include "media/ffmpeg.hpp"

namespace kinora::video {

constexpr double kLongestClip = 3600;  // seconds; a longer span comes from broken timestamps

// Samples of every channel, [channel][i].
using Planes = std::vector<std::vector<float>>;

// A picture, or the sound up to a picture.
struct Feed {
  std::shared_ptr<const Planes> sound;
  ff::Owned<AVFrame> picture;
  int64_t index = 0, pts = 0;  // of the picture, or of the picture at which the sound ends
  bool damaged = false;
  int64_t bytes = 0;

  // Holds a reference to the picture.
  static Feed of_picture(const AVFrame& picture, int64_t index, int64_t pts, bool damaged) {
    Feed feed;
    feed.picture = cropped(picture, {});
    feed.index = index;
    feed.pts = pts;
    feed.damaged = damaged;
    for (const AVBufferRef* buffer : feed.picture->buf)
      if (buffer != nullptr) feed.bytes += static_cast<int64_t>(buffer->size);
    return feed;
  }

  static Feed of_sound(std::shared_ptr<const Planes> planes, int64_t index, int64_t pts) {
    Feed feed;
    feed.sound = std::move(planes);
    feed.index = index;
    feed.pts = pts;
    for (const auto& plane : *feed.sound) feed.bytes += static_cast<int64_t>(plane.size() * sizeof(float));
    return feed;
  }
};

// Delivers the sound of a video, frame by frame, to its clips. [owner-thread] Forward only. The video is
// borrowed.
class SoundFeed {
 public:
  // wanted: false treats the video as having no sound.
  SoundFeed(ByteSource& video, const std::string& name, bool wanted, Rational time_base) : base_(time_base) {
    if (wanted) audio_ = AudioReader::open(video, name);
  }

  AudioFormat format() const {
    return audio_ ? AudioFormat{audio_->rate(), audio_->channels(), 0} : AudioFormat{};
  }

  // Continues at `pts`, which must not be before the end of the sound delivered so far.
  void start(int64_t pts) {
    if (audio_) at_ = sample_at(pts);
  }
  // Calls give(planes, over) in pieces up to `pts`. over: the video's sound has ended, and this is silence,
  // which only clips without any sound so far need. If the video's clock leaps by more than a clip may last
  // (see credible()), only the sound just before `pts` is delivered, because every clip that is open then
  // fails.
  template <class Give>
  void until(int64_t pts, const Give& give) {
    if (!audio_) return;
    const bool over = audio_->ended();
    const int64_t end = sample_at(pts), longest = static_cast<int64_t>(kLongestClip) * audio_->rate();
    if (end - at_ > longest + kPiece) at_ = end - kPiece;
    while (at_ < end) {
      const int64_t count = std::min(kPiece, end - at_);
      auto planes = std::make_shared<Planes>();
      audio_->read(at_, count, *planes);
      at_ += count;
      give(std::shared_ptr<const Planes>(std::move(planes)), over);
    }
  }

 private:
  static constexpr int64_t kPiece = 1 << 16;  // samples

  int64_t sample_at(int64_t pts) const {
    return av_rescale_q(pts, {base_.num, base_.den}, {1, audio_->rate()});
  }

  Rational base_;
  std::unique_ptr<AudioReader> audio_;
  int64_t at_ = 0;  // the next sample, on the video's clock
};

}  // namespace kinora::video
