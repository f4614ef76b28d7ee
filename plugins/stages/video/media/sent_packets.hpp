#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "media/ffmpeg.hpp"

namespace kinora::video {

// The last packets that a decoder was given, and whether it logged an error while it decoded them: some decoders pass
// over what they cannot read and say so to the log alone, so that a picture is missing unsaid. An error about a picture
// that comes all the same does not prove damage.
//
// [owner-thread], but for take_error. The decoder borrows it.
class SentPackets {
 public:
  // Call before the packet is sent, with the picture's usual length in ticks.
  void add(AVCodecContext& decoder, const AVPacket& packet, int64_t nominal);
  // Call for every picture that comes out. Whether one is missing before it.
  bool lacks_picture_before(int64_t pts);
  // Call at the end. Whether one is missing behind the last picture.
  bool lacks_picture_at_end();
  void clear();  // after a seek

  // [any-thread] A decoder logs an error.
  static void take_error(const AVCodecContext& decoder) noexcept;

 private:
  struct Sent {
    int64_t pts = 0;
    bool waits = false;  // for its picture
    std::atomic<bool> has_error = false;
  };
  std::array<Sent, 256> sent_;  // more than any decoder's delay
  size_t next_ = 0;
  int64_t shown_ = AV_NOPTS_VALUE;  // the last picture
  int64_t nominal_ = 1;
};

}  // namespace kinora::video
