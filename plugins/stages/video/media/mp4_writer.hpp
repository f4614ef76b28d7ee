#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "media/ffmpeg.hpp"

namespace kinora::video {

// Writes an MP4 file to memory or to a file, with its index in front (faststart) and nothing that changes from run to
// run: no creation time, no library version.
//
// Or writes a sequence of fragments (ISO/IEC 14496-12, 8.8), each of which is complete before the file is.
//
// [owner-thread] add() the streams, start(), write() packets, finish(). In fragments: start_fragments(), take() the
// header, and for each fragment write() its packets in decoding order and end_fragment(). MediaError if the muxer
// refuses something.
class Mp4Writer {
 public:
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  // Metadata keys are those that MP4 supports: title, artist, album, comment, description, synopsis, genre,
  // date, copyright, encoder... MediaError names a key that would be lost.
  explicit Mp4Writer(const Metadata& metadata) : Mp4Writer(metadata, std::filesystem::path()) {}
  // Writes to this file, which is created or emptied, instead of memory, which then holds the index alone. Not for
  // fragments. The file is incomplete until finish().
  Mp4Writer(const Metadata& metadata, const std::filesystem::path& file);
  ~Mp4Writer();
  Mp4Writer(const Mp4Writer&) = delete;
  Mp4Writer& operator=(const Mp4Writer&) = delete;

  // Adds a stream for an opened encoder, or for packets copied from elsewhere (with their time base). Returns
  // the stream, which the writer owns.
  AVStream* add(const AVCodecContext& encoder);
  AVStream* add(const AVCodecParameters& parameters, AVRational time_base);

  // timescale: ticks per second of the movie clock, in which edit lists are written; give the finest one
  // needed.
  void start(int timescale);

  // Instead of start(). The file then has no index: each fragment has its own.
  void start_fragments();
  // Returns the fragment of the packets since the last one: its boxes moof and mdat.
  std::vector<uint8_t> end_fragment();
  // Returns the bytes that no call returned before. After start_fragments(): the header, boxes ftyp and moov.
  std::vector<uint8_t> take();

  // Moves the packet's content into the file and leaves the packet blank; its times are in `time_base`, its duration
  // that for which it is shown. The track lasts until the last of its pictures has been shown.
  void write(AVPacket& packet, const AVStream& stream, AVRational time_base);

  // Returns the whole file, or nothing if it was written to a file; in fragments what is behind the last one, which is
  // nothing. The writer must not be used afterwards.
  std::vector<uint8_t> finish();

 private:
  struct File {
    int descriptor = -1;  // of a file on disk; -1: in memory
    int64_t on_disk = 0;  // its size
    std::vector<uint8_t> bytes;
    int64_t first = 0;  // position of bytes[0] in the file: those before were taken
    int64_t size() const { return descriptor >= 0 ? on_disk : first + static_cast<int64_t>(bytes.size()); }
    // Of bytes that are there. Returns the number read, or an AVERROR.
    int64_t read(int64_t position, uint8_t* to, int64_t count) const;
    // Returns `count`, or an AVERROR.
    int64_t write(int64_t position, const uint8_t* from, int64_t count);
  };
  // A position in the file: the muxer's, or that of the second reader that moves the index to the front.
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

  // Each stream's newest packet waits for the next one.
  struct Track {
    ff::Owned<AVPacket> last;
    int64_t first_dts = 0, first_pts = 0, end = 0;  // ticks of the stream; end of the picture shown last
  };
  void put(AVPacket& packet);
  void write_header(AVDictionary* options);

  File file_;
  AVFormatContext* format_ = nullptr;
  std::map<int, Track> tracks_;  // of pictures, by the streams' indices
  bool is_fragmented_ = false;
};

}  // namespace kinora::video
