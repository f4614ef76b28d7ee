#pragma once

#include <deque>
#include <exception>
#include <string>

#include "media/byte_source.hpp"
#include "media/ffmpeg.hpp"
#include "media/joined_recordings.hpp"

namespace kinora::video {

struct Limits;

// A container opened over a ByteSource; the base of the probe, the decoder and the audio reader.
//
// Security: all bytes come from the source. FFmpeg gets no protocol and no way to open a second file, and
// only demuxers of self-contained media are allowed, so a playlist (hls, dash, concat) that names other files
// or URLs is refused before any of its lines is acted on.
//
// [owner-thread] The source is borrowed and must outlive the input.
class Input {
 public:
  // MediaError if the bytes are empty, are not media, are cut off before the index, or exceed the limits.
  Input(ByteSource& source, const std::string& name, const Limits& limits);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  AVFormatContext* format() const { return format_; }
  AVStream* video() const { return video_; }  // null if there is none; cover pictures do not count
  AVStream* audio() const { return audio_; }  // null if there is none

  // From now on only packets of this stream matter; demuxers with an index then skip the bytes of other streams.
  void select(const AVStream* wanted);

  // Reads the next packet; returns 0, AVERROR_EOF, or another negative FFmpeg code. Joined recordings have one
  // clock; see JoinedRecordings. Rethrows the source's exceptions.
  int read(AVPacket& packet);
  // Whether the packets so far are of several recordings, so that the container cannot be seeked by their times.
  bool is_joined() const { return recordings_.is_joined(); }

  // Whether bytes behind the last packet are damaged: packets at the end are lost.
  bool has_lost_end() { return !damage_at_.empty() || skips_indexed(INT64_MAX); }

  // Seeks to the last key frame at or before `timestamp` (ticks of the stream). Rethrows the source's
  // exceptions.
  int seek(const AVStream* stream, int64_t timestamp);

 private:
  class Watch;
  void mark(AVPacket& packet);
  bool skips_indexed(int64_t position);
  static int read_bytes(void* self, uint8_t* buffer, int size) noexcept;
  static int64_t seek_bytes(void* self, int64_t offset, int whence) noexcept;
  const AVInputFormat* identify() const;
  void open(const Limits& limits);
  void find_streams(const Limits& limits);
  void check_size(const AVStream& stream, const Limits& limits) const;
  void rethrow();

  ByteSource& source_;
  std::string name_;
  int64_t position_ = 0;
  std::exception_ptr failure_;  // thrown by the source and carried through FFmpeg's C code
  ff::Owned<AVIOContext> io_;
  AVFormatContext* format_ = nullptr;
  AVStream* video_ = nullptr;
  AVStream* audio_ = nullptr;
  JoinedRecordings recordings_;
  // Places where the demuxer met an error, in the file: most pass over the bytes and say so to the log alone. The next
  // packet of the video behind each is marked AV_PKT_FLAG_CORRUPT.
  std::deque<int64_t> damage_at_;
  int64_t read_to_ = 0;  // place of the last packet of the video; -1 after a seek
  int indexed_ = 0;      // entries of the index that lie before
};

// Opens a decoder for the stream with `threads` threads and the pixel limit. MediaError if FFmpeg has none
// for it.
ff::Owned<AVCodecContext> open_decoder(const AVStream& stream, const std::string& name, int threads,
                                       const Limits& limits, bool motion_vectors = false);

}  // namespace kinora::video
