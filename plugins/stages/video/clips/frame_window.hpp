// Buffers decoded frames of a video until it is known which clips they belong to.
#pragma once

#include <algorithm>
#include <deque>

#include "clips/clip_works.hpp"

namespace kinora::video {

// [owner-thread] Holds consecutive frames; their bytes count as held by the feeder of `works`.
class FrameWindow {
 public:
  explicit FrameWindow(ClipWorks& works) : works_(works) {}

  void push(Feed frame) {
    works_.hold(frame.bytes);
    bytes_ += frame.bytes;
    frames_.push_back(std::move(frame));
  }
  void drop_before(int64_t frame) {
    while (!frames_.empty() && first_ < frame) drop_first();
  }
  // Drops the oldest frames until at most this many bytes remain, or two frames: one, and the next, which gives its end.
  void shrink(int64_t most) {
    while (bytes_ > most && frames_.size() > 2) drop_first();
  }
  // Null if the frame was dropped.
  const Feed* at(int64_t frame) const {
    const int64_t place = frame - first_;
    return place < 0 || place >= static_cast<int64_t>(frames_.size()) ? nullptr : &frames_[static_cast<size_t>(place)];
  }

 private:
  void drop_first() {
    works_.hold(-frames_.front().bytes);
    bytes_ -= frames_.front().bytes;
    frames_.pop_front();
    ++first_;
  }

  ClipWorks& works_;
  std::deque<Feed> frames_;
  int64_t first_ = 0, bytes_ = 0;
};

}  // namespace kinora::video
