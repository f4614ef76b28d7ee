// Ownership and error text for FFmpeg's C objects.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/audio_fifo.h>
#include <libavutil/channel_layout.h>
#include <libavutil/display.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>
}

#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>

namespace kinora::video::ff {

struct Release {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
  void operator()(AVCodecParameters* parameters) const { avcodec_parameters_free(&parameters); }
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
  void operator()(SwrContext* resampler) const { swr_free(&resampler); }
  void operator()(AVAudioFifo* fifo) const { av_audio_fifo_free(fifo); }
  void operator()(AVIOContext* io) const {
    av_freep(&io->buffer);  // FFmpeg may have replaced the buffer
    avio_context_free(&io);
  }
};

template <class T>
using Owned = std::unique_ptr<T, Release>;

template <class T>
Owned<T> own(T* object) {
  if (object == nullptr) throw std::bad_alloc();
  return Owned<T>(object);
}

inline Owned<AVFrame> new_frame() { return own(av_frame_alloc()); }
inline Owned<AVPacket> new_packet() { return own(av_packet_alloc()); }

// Reads an enumeration that FFmpeg filled from the file as a number: a damaged file may give values outside
// the enumeration, and reading them as the enumeration is undefined in C++. Such values become `unspecified`.
template <class Enum>
Enum tag(const Enum& field, Enum count, Enum unspecified) {
  int value = 0;
  static_assert(sizeof value == sizeof field);
  std::memcpy(&value, &field, sizeof value);
  return value >= 0 && value < count ? static_cast<Enum>(value) : unspecified;
}

inline std::string error_text(int code) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(code, text, sizeof text);
  return text;
}

// Stops the libraries from writing warnings to the host's stderr; relevant ones reach the caller as errors.
inline void silence_library_log() {
  static std::once_flag once;
  std::call_once(once, [] { av_log_set_level(AV_LOG_QUIET); });
}

// Access to fields that FFmpeg renamed between the releases that Kinora supports.
inline bool is_key(const AVFrame& frame) {
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 29, 100)
  return (frame.flags & AV_FRAME_FLAG_KEY) != 0;
#else
  return frame.key_frame != 0;
#endif
}

inline int64_t duration_ticks(const AVFrame& frame) {
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
  return frame.duration;
#else
  return frame.pkt_duration;
#endif
}

}  // namespace kinora::video::ff
