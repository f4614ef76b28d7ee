#pragma once

#include <memory>
#include <vector>

#include "media/aac_track.hpp"
#include "clips/frame_encoder.hpp"
#include "media/mp4_writer.hpp"
#include "media/parameter_sets.hpp"

namespace kinora::video {

// A clip of whole groups of pictures of a film, byte for byte as they are, with encoded frames before and
// after them. The file is one avc1 track whose avcC holds the parameter sets of both, ours under an id that
// the film does not use: every piece begins with an IDR, at which a decoder may change from one set to the
// other. FFmpeg and Chromium show every frame of such a file once and on time; a change of parameter sets
// inside the packets (avc3), which Chromium refuses in MP4 without a fallback, is not needed.
//
// [owner-thread] Times are ticks of the options' time base from the clip's start. Memory: the coded clip,
// twice.
class SplicedWriter {
 public:
  // film: the parameters of its stream. sets: what its avcC holds. ends: of the frames that are encoded;
  // their parameter_set must be a free_id(sets), or 0 when there are none.
  SplicedWriter(const AVCodecParameters& film, const ParameterSets& sets, const EncoderOptions& ends);

  void encode(const AVFrame& frame, int64_t pts);
  // The encoded frames before this end here; more may follow after copied ones.
  void end_encoding(int64_t end_pts);
  // A packet of the film, in decoding order.
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
  std::unique_ptr<FrameEncoder> encoder_;  // of the frames that are being encoded, or of the next ones
  std::vector<ff::Owned<AVPacket>> packets_;
};

}  // namespace kinora::video
