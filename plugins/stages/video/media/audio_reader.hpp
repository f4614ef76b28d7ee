#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "media/byte_source.hpp"

namespace kinora::video {

// The sound of a film by position: sample n of channel c is what sounds at n / rate() seconds on the clock
// that the video's timestamps are on. Edit lists and codec priming are already taken off; where the film has
// no sound (before its start, after its end, in a gap, where packets are broken) there is silence.
//
// A clock that drifts from the samples by less than 10 ms (rounded timestamps) follows the samples; beyond,
// the clock.
//
// [owner-thread] Forward only, memory one decoded packet. The source is borrowed.
class AudioReader {
 public:
  // Null when the film has no audio stream that this FFmpeg can decode, or one of an impossible rate.
  // MediaError when it cannot be opened at all.
  static std::unique_ptr<AudioReader> open(ByteSource& source, const std::string& name);
  ~AudioReader();

  int rate() const;      // samples a second
  int channels() const;  // 1..6 or 8; other layouts are mixed down to stereo

  // Samples [start, start + count) of every channel into planes[c][0..count), which is resized. `start` must
  // not lie before the end of the previous call.
  void read(int64_t start, int64_t count, std::vector<std::vector<float>>& planes);

  // True once the film's sound has been read to its end: only silence can follow.
  bool ended() const;

 private:
  struct State;
  explicit AudioReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kinora::video
