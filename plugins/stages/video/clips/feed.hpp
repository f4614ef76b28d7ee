// The data that a clip receives, in the order of its frames.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "media/crop.hpp"
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

}  // namespace kinora::video
