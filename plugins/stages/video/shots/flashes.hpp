// Finds flashes in the 48 x 27 pictures of a video: at most 4 frames that are all brighter, or all darker, than
// the frame before them and the frame after them, and that show what one of these two shows, or plain white or
// black. The middle of a fade and a short insert of another shot do not count.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace kinora::video {

struct Flash {
  int64_t first, end;   // its frames
  bool is_in_one_shot;  // the frames before and after it show the same, up to motion
  bool shows_before;    // it shows what the frame before it shows rather than what the one after it does
};

// [owner-thread]
class Flashes {
 public:
  // The next frame's picture, [27, 48, 3]. The last kKept frames are kept.
  void see(const uint8_t* picture);
  // The flash that begins or ends between this frame and the next, or holds both.
  std::optional<Flash> at(int64_t frame) const;

 private:
  struct Picture {
    std::vector<uint8_t> values;
    double mean;
  };
  const Picture* picture(int64_t frame) const;
  std::optional<Flash> between(int64_t before, int64_t after) const;
  bool is_fade(int64_t before, int64_t after, double sign) const;

  std::deque<Picture> pictures_;
  int64_t first_ = 0;  // frame of the first of them
};

}  // namespace kinora::video
