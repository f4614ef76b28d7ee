#pragma once

#include <deque>
#include <functional>

#include "media/convert.hpp"
#include "media/encoder.hpp"
#include "media/ffmpeg.hpp"

namespace kinora::video {

// Encodes frames to H.264 packets for the files of Encoder and SplicedWriter.
//
// [owner-thread] Memory: the encoder's look-ahead. After an exception only destruction is allowed.
class FrameEncoder {
 public:
  // Receives every packet in decoding order, with times in ticks of time_base() and its duration set; it may
  // consume the packet.
  using Sink = std::function<void(AVPacket&)>;

  // Ignores the options' audio and metadata. MediaError as in Encoder.
  FrameEncoder(EncoderOptions options, Sink sink);

  const AVCodecContext& context() const { return *encoder_; }
  const EncoderOptions& options() const { return options_; }
  AVRational time_base() const { return time_base_; }

  // As in Encoder.
  void write_rgb(const uint8_t* rgb);
  void write(const AVFrame& frame, int64_t pts);

  // Makes the next frame that is written an instantaneous decoder refresh.
  void force_key() { forces_key_ = true; }
  // Ends the last frame 1/fps after its start. A low-latency encoder delivers its packet before this returns.
  void end_frame() { send_held(nominal_end()); }

  // Ends the last frame at `end_pts` ticks (-1: 1/fps after its start) and delivers the last packets.
  void finish(int64_t end_pts);

 private:
  struct Shown {
    int64_t pts, duration;
  };
  bool fits(const AVFrame& frame) const;
  void hold(const AVFrame& frame, int64_t pts);
  void hold_converted(const AVFrame& frame);
  int64_t nominal_end() const;
  void send_held(int64_t end_pts);
  void drain();

  EncoderOptions options_;
  Sink sink_;
  int width_ = 0, height_ = 0;  // even
  AVRational time_base_{};
  ff::Owned<AVCodecContext> encoder_;
  PixelConverter converter_;
  ff::Owned<AVFrame> held_, view_;
  ff::Owned<AVPacket> packet_ = ff::new_packet();
  std::deque<Shown> shown_;  // frames inside the encoder
  int64_t frames_ = 0;
  bool forces_key_ = false;
};

}  // namespace kinora::video
