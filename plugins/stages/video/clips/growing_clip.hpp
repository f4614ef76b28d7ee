#pragma once

#include <memory>
#include <string>

#include "clips/clip_maker.hpp"
#include "clips/clip_writer.hpp"

namespace kinora::video {

// Reason why there is no clip, appended to its title.
inline std::string damaged_from(int64_t frame) {
  return " is damaged from frame " + std::to_string(frame) + " on; fetch or re-encode the video";
}

// Builds a clip from its feeds, frame by frame. [owner-thread]
class GrowingClip {
 public:
  explicit GrowingClip(const MakerContext& context) : c_(context) {}

  bool in_trouble() const { return !trouble_.empty(); }
  void is_damaged_from(int64_t frame) { trouble_ = damaged_from(frame); }

  // Ignores feeds after an error.
  void take(const Feed& feed) {
    if (in_trouble()) return;
    if (feed.damaged) is_damaged_from(feed.index);
    if (writer_ && !writer_->credible(feed.pts)) trouble_ = kIncredible;
    try {
      if (!in_trouble()) write(feed);
    } catch (const TooManySamples& e) {
      trouble_ = std::string(": ") + e.what();
    }
    if (in_trouble()) writer_.reset();
  }

  Clip finish(const ClipWorks::Ended& end) {
    if (!in_trouble() && (!writer_ || !writer_->credible(end.pts))) trouble_ = kIncredible;
    if (!in_trouble()) return writer_->finish(end.pts);
    Clip clip;
    clip.error = clip_title(c_.name, end.range) + trouble_;
    return clip;
  }

 private:
  static constexpr const char* kIncredible =
      " spans over an hour or starts years from zero by its timestamps; remux the video";

  void write(const Feed& feed) {
    if (feed.sound) writer_->add_sound(*feed.sound);
    if (!feed.picture) return;
    if (!writer_)
      writer_ = std::make_unique<ClipWriter>(*feed.picture, feed.pts, c_.probe, c_.sound, c_.options);
    writer_->add(*feed.picture, feed.pts);
  }

  const MakerContext& c_;
  std::unique_ptr<ClipWriter> writer_;
  std::string trouble_;
};

}  // namespace kinora::video
