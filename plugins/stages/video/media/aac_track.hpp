#pragma once

#include <cstdint>

#include "media/encoder.hpp"
#include "media/ffmpeg.hpp"
#include "media/mp4_writer.hpp"

namespace kinora::video {

// An AAC-LC track of an MP4. The encoder's priming (1,024 samples that decode to nothing) precedes time 0 and
// is declared in the edit list, so players start at the first real sample. [owner-thread]
class AacTrack {
 public:
  // Adds its stream to the writer (borrowed, not yet started). MediaError for formats that AAC does not
  // support.
  AacTrack(const AudioFormat& format, Mp4Writer& writer);

  int rate() const { return encoder_->sample_rate; }

  // Appends samples: planes[channel][0..count).
  void write(const float* const* planes, int64_t count);

  // Flushes the resampler and the encoder.
  void finish();

 private:
  void open_encoder(const AudioFormat& format);
  void open_resampler(const AudioFormat& format);
  void store(const uint8_t** planes, int count);
  void encode(bool flush);
  void send(const AVFrame* frame);

  Mp4Writer& writer_;
  AVStream* stream_ = nullptr;
  ff::Owned<AVCodecContext> encoder_;
  ff::Owned<SwrContext> resampler_;  // null if AAC supports the rate
  ff::Owned<AVAudioFifo> fifo_;
  ff::Owned<AVFrame> converted_;
  int64_t sent_ = 0;  // samples given to the encoder
};

}  // namespace kinora::video
