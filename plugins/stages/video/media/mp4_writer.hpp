#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "media/ffmpeg.hpp"

namespace kinora::video {

// An MP4 file written to memory, its index in front (faststart) and nothing in it that changes from run to
// run: no creation time, no library version.
//
// [owner-thread] add() the streams, start(), write() packets, finish(). MediaError when the muxer refuses
// something.
class Mp4Writer {
 public:
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  // Metadata keys are those an MP4 can hold: title, artist, album, comment, description, synopsis, genre,
  // date, copyright, encoder... MediaError names a key that would be lost.
  explicit Mp4Writer(const Metadata& metadata);
  ~Mp4Writer();
  Mp4Writer(const Mp4Writer&) = delete;
  Mp4Writer& operator=(const Mp4Writer&) = delete;

  // A stream of an opened encoder, or of packets copied from elsewhere (their time base given). Returns its
  // stream, owned by the writer.
  AVStream* add(const AVCodecContext& encoder);
  AVStream* add(const AVCodecParameters& parameters, AVRational time_base);

  // timescale: ticks a second of the movie clock in which edit lists are written, so the finest that matters.
  void start(int timescale);

  // Takes the packet's content (the packet is blank afterwards); its times are in `time_base`.
  void write(AVPacket& packet, const AVStream& stream, AVRational time_base);

  // The whole file. The writer is spent.
  std::vector<uint8_t> finish();

 private:
  struct File {
    std::vector<uint8_t> bytes;
  };
  // One position in the file: the muxer's own, or the second reader that moves the index to the front.
  struct Cursor {
    File* file;
    int64_t position = 0;
  };

  static int read_bytes(void* cursor, uint8_t* buffer, int size) noexcept;
#if LIBAVFORMAT_VERSION_MAJOR >= 61
  using Written = const uint8_t*;
#else
  using Written = uint8_t*;
#endif
  static int write_bytes(void* cursor, Written buffer, int size) noexcept;
  static int64_t seek_bytes(void* cursor, int64_t offset, int whence) noexcept;
  static int reopen(AVFormatContext* format, AVIOContext** io, const char* url, int flags,
                    AVDictionary** options);
  static int close(AVFormatContext* format, AVIOContext* io);
  static AVIOContext* new_io(File& file, bool writes);
  static void free_io(AVIOContext* io);

  File file_;
  AVFormatContext* format_ = nullptr;
};

}  // namespace kinora::video
