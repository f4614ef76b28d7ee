#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "media/byte_source.hpp"

namespace kinora::video {

// Reads the sound of a video by position: sample n of channel c sounds at n / rate() seconds on the clock of
// the video's timestamps. Edit lists and codec priming are already removed. Positions without sound (before
// its start, after its end, in a gap, in broken packets) are silent.
//
// If the clock drifts from the samples by less than 10 ms (rounded timestamps), the samples are followed,
// otherwise the clock.
//
// [owner-thread] Reads forward only; keeps one decoded packet in memory. The source is borrowed.
class AudioReader {
 public:
  // Null if the video has no audio stream that this FFmpeg can decode, or one with an impossible rate.
  // MediaError if the video cannot be opened at all.
  static std::unique_ptr<AudioReader> open(ByteSource& source, const std::string& name);
  ~AudioReader();

  int rate() const;      // samples per second
  int channels() const;  // 1..6 or 8; other layouts are mixed down to stereo

  // Reads samples [start, start + count) of every channel into planes[c][0..count), which is resized. `start`
  // must not be before the end of the previous call.
  void read(int64_t start, int64_t count, std::vector<std::vector<float>>& planes);

  // True once the sound has been read to its end and only silence can follow.
  bool ended() const;

 private:
  struct State;
  explicit AudioReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kinora::video
