#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "media/byte_source.hpp"
#include "media/probe.hpp"

struct AVFrame;

namespace kinora::video {

// Where the frames of a film lie on its clock, learnt by decoding it once: what makes a seek frame-exact.
struct FrameIndex {
  std::vector<int64_t>
      pts;  // timestamp of every frame as the container gives it, ticks of the video's time base
  std::vector<int64_t> keys;  // indices of the key frames, ascending
  bool exact = true;  // no timestamp was missing or repeated and nothing was damaged: seeking may trust it

  // Index of the frame with this timestamp, or -1.
  int64_t find(int64_t timestamp) const;
};

struct DecoderOptions {
  int threads = 1;  // decoding threads; the frames are the same for every value
  Limits limits{};
  int64_t max_frames = int64_t{1} << 31;      // delivery ends here, with damaged() saying so
  int max_errors = 64;                        // consecutive undecodable packets before giving up
  bool motion_vectors = false;  // pictures carry FFmpeg's AV_FRAME_DATA_MOTION_VECTORS, where the codec has them
  std::shared_ptr<const FrameIndex> index{};  // of an earlier pass over the same film; lets skip_to() seek
};

// A decoded frame, borrowed from the decoder until its next call.
struct Frame {
  const AVFrame* picture = nullptr;
  int64_t index = 0;     // 0 is the first frame a player shows
  int64_t pts = 0;       // ticks of Decoder::time_base(), strictly increasing, on the clock that audio shares
  int64_t duration = 0;  // ticks; nominal where the container says nothing. The truth is the next frame's pts
  double seconds = 0;    // pts in seconds
  bool key = false;      // decoding can start here
  bool concealed = false;  // parts were missing or broken and have been guessed
  bool damaged = false;    // concealed, or decoded after a loss that no key frame has mended yet
};

// Frames of a film's first video stream in presentation order, each decoded frame under its own index.
//
// Edit lists: frames that the container marks as not presented (before an edit's start, after its end,
// pre-roll) are decoded and not delivered, as in players, so indices count shown frames. A variable frame
// rate is kept: no frame is repeated or dropped to fit a rate. A missing timestamp is the previous one plus a
// nominal frame; one that does not increase is moved a tick after the previous one; a jump back of a second
// or more restarts the clock there.
//
// Damage: what decodes is delivered; damaged() then tells where it went wrong. Reading always ends: at the
// end of the bytes, after max_errors consecutive errors, or after max_frames.
//
// [owner-thread] The source is borrowed and must outlive the decoder. Exceptions of the source pass through.
class Decoder {
 public:
  // MediaError as probe(), or when FFmpeg has no decoder for the codec.
  Decoder(ByteSource& source, std::string name, DecoderOptions options = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // The next frame, or null at the end.
  const Frame* next();

  // Makes `index` the frame that next() delivers; next() gives null if the film ends before it. Seeks to a
  // key frame when an exact FrameIndex covers the target, else decodes and drops (from the start when the
  // target lies behind).
  void skip_to(int64_t index);

  int64_t position() const;  // index of the frame that next() gives, or of the one the film lacks at its end
  const Probe& probe() const;
  Rational time_base() const;  // seconds in a tick of Frame::pts

  // What has been decoded from the start without a gap: the whole film once next() returned null and no seek
  // was made.
  const FrameIndex& index() const;

  // Empty while nothing is wrong; else what is, at which frame, and how many frames were delivered. Final
  // once next() returned null.
  std::string damaged() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Counted {
  int64_t frames = 0;   // that a player shows
  std::string damaged;  // Decoder::damaged() at the end
};

// Decodes the whole film.
Counted count_frames(ByteSource& source, const std::string& name, const DecoderOptions& options = {});

}  // namespace kinora::video
