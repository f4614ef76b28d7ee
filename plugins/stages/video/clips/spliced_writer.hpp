#pragma once

#include <memory>
#include <vector>

#include "media/aac_track.hpp"
#include "media/frame_encoder.hpp"
#include "media/mp4_writer.hpp"
#include "media/parameter_sets.hpp"

namespace kinora::video {

// Writes a clip that copies whole groups of pictures of a video byte for byte, with encoded frames before and
// after them. The file is one avc1 track whose avcC holds the parameter sets of both, ours under an id that
// the video does not use: every piece begins with an IDR, at which a decoder may change from one set to the
// other. FFmpeg and Chromium show every frame of such a file once and on time; parameter sets inside the
// packets (avc3), which Chromium refuses in MP4 without a fallback, are not needed.
//
// [owner-thread] Times are ticks of the options' time base from the clip's start. Memory: twice the coded
// clip.
class SplicedWriter {
 public:
  // stream: parameters of the video's stream. sets: content of its avcC. ends: options of the encoded frames;
  // their parameter_set must be a free_id(sets), or 0 if there are no encoded frames.
  SplicedWriter(const AVCodecParameters& stream, const ParameterSets& sets, const EncoderOptions& ends);

  void encode(const AVFrame& frame, int64_t pts);
  // Ends the current encoded frames; more may follow after copied ones.
  void end_encoding(int64_t end_pts);
  // Copies a packet of the video; call in decoding order.
  void copy(const AVPacket& packet, int64_t pts);
  void write_audio(const float* const* planes, int64_t count);
  std::vector<uint8_t> finish(int64_t end_pts);

 private:
  std::unique_ptr<FrameEncoder> new_encoder();
  void keep(const AVPacket& packet, int64_t pts);
  void set_times(int64_t end_pts);

  EncoderOptions ends_;
  Mp4Writer writer_;
  AVRational time_base_;
  AVStream* stream_ = nullptr;
  std::unique_ptr<AacTrack> audio_;
  std::unique_ptr<FrameEncoder> encoder_;  // encodes the current or the next frames
  std::vector<ff::Owned<AVPacket>> packets_;
};

}  // namespace kinora::video
