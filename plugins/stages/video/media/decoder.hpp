#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "media/byte_source.hpp"
#include "media/probe.hpp"

struct AVFrame;

namespace kinora::video {

class HardwareDecoder;

// The timestamps of all frames of a video, known from decoding it once. They make seeking frame-exact.
struct FrameIndex {
  std::vector<int64_t> pts;   // timestamp of every frame from the container, ticks of the video's time base
  std::vector<int64_t> keys;  // indices of the key frames, ascending
  bool exact =
      true;  // no timestamp was missing or repeated and nothing was damaged, so seeking may rely on it

  // Returns the index of the frame with this timestamp, or -1.
  int64_t find(int64_t timestamp) const;
};

// Frames [first, end) of a video, by Decoder's indices.
struct Range {
  int64_t first = 0;
  int64_t end = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

struct DecoderOptions {
  int threads = 1;  // decoding threads; the frames are the same for every value
  Limits limits{};
  int64_t max_frames = int64_t{1} << 31;  // delivery ends here, and damaged() reports it
  int max_errors = 64;                    // consecutive undecodable packets before giving up
  bool motion_vectors = false;  // frames carry FFmpeg's AV_FRAME_DATA_MOTION_VECTORS if the codec has them
  std::shared_ptr<const FrameIndex> index{};  // from an earlier pass over the same video; lets skip_to() seek
  // Decodes in place of the CPU, without motion vectors; null: the CPU alone. When it fails, the CPU decodes
  // the video from the start, and the caller still receives each frame once.
  const HardwareDecoder* hardware = nullptr;
  bool hardware_only = false;  // its failure is a MediaError instead
  // Called when the CPU takes over, with the video and the reason.
  std::function<void(const std::string& why)> on_fallback{};
};

// A decoded frame, borrowed from the decoder until its next call.
struct Frame {
  const AVFrame* picture = nullptr;
  int64_t index = 0;     // 0 is the first frame a player shows
  int64_t pts = 0;       // ticks of Decoder::time_base(), strictly increasing, on the clock shared with audio
  int64_t duration = 0;  // ticks; nominal if the container has none. The next frame's pts is authoritative
  double seconds = 0;    // pts in seconds
  bool key = false;      // decoding can start here
  bool concealed = false;  // missing or broken parts have been guessed
  bool damaged = false;    // concealed, or decoded after a loss that no key frame has repaired yet
};

// Decodes the frames of a file's first video stream in presentation order and numbers them.
//
// Edit lists: frames that the container marks as not presented (before an edit's start, after its end,
// pre-roll) are decoded but not delivered, as in players, so indices count shown frames. A variable frame
// rate is kept: no frame is repeated or dropped to fit a rate. A missing timestamp becomes the previous one
// plus a nominal frame; one that does not increase is moved one tick after the previous one; a jump back of a
// second or more restarts the clock there.
//
// Hardware: it delivers the CPU's frames of intact videos, but damage inside a picture goes unnoticed there if
// the packets still parse.
//
// Damage: every frame that decodes is delivered, and damaged() reports where an error occurred. Reading
// always ends: at the end of the bytes, after max_errors consecutive errors, or after max_frames.
//
// [owner-thread] The source is borrowed and must outlive the decoder. Exceptions of the source pass through.
class Decoder {
 public:
  // MediaError as in probe(), if FFmpeg has no decoder for the codec, or if hardware_only cannot be kept.
  Decoder(ByteSource& source, std::string name, DecoderOptions options = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Returns the next frame, or null at the end.
  const Frame* next();

  // Makes next() deliver frame `index`, or null if the video ends before it. Seeks to a key frame if an exact
  // FrameIndex covers the target; otherwise decodes and drops frames, from the start if the target is behind.
  void skip_to(int64_t index);

  int64_t position() const;  // index of the frame that next() would deliver
  const Probe& probe() const;
  Rational time_base() const;  // seconds per tick of Frame::pts

  // Index of the frames decoded from the start without a gap: the whole video once next() has returned null
  // without any seek.
  const FrameIndex& index() const;

  // Empty if nothing is wrong; otherwise the error, its frame and the number of delivered frames. Final once
  // next() has returned null.
  std::string damaged() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Counted {
  int64_t frames = 0;   // number that a player shows
  std::string damaged;  // Decoder::damaged() at the end
};

// Decodes the whole video and counts its frames; a JPEG as JpegPicture does, which notices what is cut off.
Counted count_frames(ByteSource& source, const std::string& name, const DecoderOptions& options = {});

}  // namespace kinora::video
