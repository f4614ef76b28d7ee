// Passes decoded frames from the decoding thread to the measuring thread. It holds only a few, so a video needs little
// more memory than its decoder.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>

#include "media/ffmpeg.hpp"
#include "shots/shot_clock.hpp"

namespace kinora::video {

struct TimedFrame {
  ff::Owned<AVFrame> picture;
  Moment when;
};

class FramePipe {
 public:
  explicit FramePipe(size_t capacity) : capacity_(capacity) {}

  // Waits for room. False if the pipe is closed; the frame is then dropped.
  bool push(const AVFrame& picture, const Moment& when) {
    TimedFrame frame{ff::new_frame(), when};
    if (av_frame_ref(frame.picture.get(), &picture) < 0) throw std::bad_alloc();
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return closed_ || frames_.size() < capacity_; });
    if (closed_) return false;
    frames_.push_back(std::move(frame));
    filled_.notify_one();
    return true;
  }

  // Waits for a frame; empty once the pipe is closed and drained.
  std::optional<TimedFrame> pull() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return closed_ || !frames_.empty(); });
    if (frames_.empty()) return std::nullopt;
    TimedFrame frame = std::move(frames_.front());
    frames_.pop_front();
    room_.notify_one();
    return frame;
  }

  // Called by either side: no more frames follow, or no more are needed.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    room_.notify_all();
    filled_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable room_, filled_;
  std::deque<TimedFrame> frames_;
  size_t capacity_;
  bool closed_ = false;
};

}  // namespace kinora::video
