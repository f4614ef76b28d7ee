#pragma once

#include <cstdint>
#include <memory>

#include "media/probe.hpp"

struct AVFrame;

namespace kinora::video {

enum class ChannelOrder { rgb, bgr };

enum class Fit {
  stretch,  // the whole picture, ignoring its aspect
  crop,     // the largest centred part with the target's aspect, respecting the sample aspect ratio
};

enum class Filter {
  automatic,  // area if either side shrinks, else bicubic
  area,
  bicubic,
  bilinear,
};

enum class Matrix {
  automatic,  // the frame's tag; untagged: BT.709 for pictures of 720 lines or more, else BT.601
  bt601,      // ignores the tag, as OpenCV's reader does
  bt709,
};

struct ScalerOptions {
  int width = 0;  // pixels of the result, 1..16384
  int height = 0;
  ChannelOrder order = ChannelOrder::rgb;
  Fit fit = Fit::stretch;
  Filter filter = Filter::automatic;
  Matrix matrix = Matrix::automatic;
  Orientation rotation;  // applied to the picture: VideoInfo::rotation makes it upright
};

// Converts decoded frames to 8-bit or float colour pictures of one size. The range (limited or full) follows
// the frame's tag; untagged is limited. Uses swscale's bit-exact arithmetic, so a frame gives the same bytes
// on every CPU.
//
// [owner-thread] Frames may change size and format from call to call; the last conversion tables are cached.
class Scaler {
 public:
  // MediaError for a size outside 1..16384 or a rotation that is not a quarter turn.
  explicit Scaler(const ScalerOptions& options);
  ~Scaler();
  Scaler(Scaler&&) noexcept;
  Scaler& operator=(Scaler&&) noexcept;

  // out: [height, width, 3] uint8, packed rows, owned by the caller.
  void bytes(const AVFrame& frame, uint8_t* out);

  // out: [3, height, width] float32 planes in [-1, 1] (byte / 127.5 - 1), owned by the caller.
  void floats(const AVFrame& frame, float* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinora::video
