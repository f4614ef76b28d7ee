#pragma once

#include "byte_source.hpp"
#include "ffmpeg.hpp"
#include "input.hpp"
#include "mp4_writer.hpp"

namespace kinora::video {

// Carries the audio packets of a film into an MP4 unchanged, on the film's own clock. [owner-thread]
class AudioCopy {
 public:
  // Adds its stream to the writer (borrowed, not yet started). MediaError when the film has no audio, or a
  // codec that MP4 cannot hold.
  AudioCopy(ByteSource& film, Mp4Writer& writer);

  int rate() const { return input_.audio()->codecpar->sample_rate; }

  // Writes the packets that start before `seconds`.
  void write_until(double seconds);

 private:
  Input input_;
  Mp4Writer& writer_;
  AVStream* stream_ = nullptr;
  ff::Owned<AVPacket> packet_ = ff::new_packet();  // read and not yet written; without data at the end
};

}  // namespace kinora::video
