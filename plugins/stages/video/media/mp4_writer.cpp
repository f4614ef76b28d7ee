#include "media/mp4_writer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

#include "media/byte_source.hpp"

namespace kinora::video {
namespace {

constexpr int kBufferBytes = 64 * 1024;

// Keys that FFmpeg's MP4 muxer writes into the `ilst` box; it drops all others silently.
constexpr std::array<std::string_view, 15> kKeys = {
    "title",     "artist",   "album_artist", "composer",    "album",    "date", "comment", "genre",
    "copyright", "grouping", "lyrics",       "description", "synopsis", "show", "network"};

void check(int code, const char* what) {
  if (code < 0) {
    throw MediaError(std::string("writing mp4: ") + what + " failed (" + ff::error_text(code) +
                     "); check the options of the encoder");
  }
}

}  // namespace

Mp4Writer::Mp4Writer(const Metadata& metadata, const std::filesystem::path& file) {
  ff::silence_library_log();
  for (const auto& [key, value] : metadata) {
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      throw MediaError("writing mp4: metadata key '" + key +
                       "' does not exist in MP4; put it into 'comment' as JSON");
    }
  }
  check(avformat_alloc_output_context2(&format_, nullptr, "mp4", "memory.mp4"), "creating the muxer");
  if (!file.empty()) file_.descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (!file.empty() && file_.descriptor < 0) {
    const int error = errno;
    avformat_free_context(format_);
    check(AVERROR(error), ("opening " + file.string()).c_str());
  }
  for (const auto& [key, value] : metadata) av_dict_set(&format_->metadata, key.c_str(), value.c_str(), 0);
  format_->flags |= AVFMT_FLAG_BITEXACT | AVFMT_FLAG_CUSTOM_IO;
  format_->max_interleave_delta = 0;  // orders packets by time, not by arrival
  format_->opaque = this;
  format_->io_open = &Mp4Writer::reopen;
  format_->io_close2 = &Mp4Writer::close;
  format_->pb = new_io(file_, true);
  if (format_->pb == nullptr) {
    if (file_.descriptor >= 0) ::close(file_.descriptor);
    avformat_free_context(format_);
    throw std::bad_alloc();
  }
}

Mp4Writer::~Mp4Writer() {
  free_io(format_->pb);
  avformat_free_context(format_);
  if (file_.descriptor >= 0) ::close(file_.descriptor);
}

int64_t Mp4Writer::File::read(int64_t position, uint8_t* to, int64_t count) const {
  if (descriptor < 0) {
    std::memcpy(to, bytes.data() + (position - first), static_cast<size_t>(count));
    return count;
  }
  for (;;) {
    const ssize_t n = pread(descriptor, to, static_cast<size_t>(count), position);
    if (n > 0) return n;
    if (n == 0) return AVERROR_EOF;
    if (errno != EINTR) return AVERROR(errno);
  }
}

int64_t Mp4Writer::File::write(int64_t position, const uint8_t* from, int64_t count) {
  if (descriptor < 0) {
    const int64_t end = position + count;
    try {
      if (end > size()) bytes.resize(static_cast<size_t>(end - first));
    } catch (const std::bad_alloc&) {
      return AVERROR(ENOMEM);
    }
    std::memcpy(bytes.data() + (position - first), from, static_cast<size_t>(count));
    return count;
  }
  for (int64_t done = 0; done < count;) {
    const ssize_t n = pwrite(descriptor, from + done, static_cast<size_t>(count - done), position + done);
    if (n < 0 && errno != EINTR) return AVERROR(errno);
    if (n > 0) done += n;
  }
  on_disk = std::max(on_disk, position + count);
  return count;
}

AVIOContext* Mp4Writer::new_io(File& file, bool writes) {
  auto* cursor = new (std::nothrow) Cursor{&file};
  auto* buffer = static_cast<unsigned char*>(av_malloc(kBufferBytes));
  AVIOContext* io = nullptr;
  if (cursor != nullptr && buffer != nullptr) {
    io = avio_alloc_context(buffer, kBufferBytes, writes ? 1 : 0, cursor, &Mp4Writer::read_bytes,
                            &Mp4Writer::write_bytes, &Mp4Writer::seek_bytes);
  }
  if (io == nullptr) {
    av_free(buffer);
    delete cursor;
  }
  return io;
}

void Mp4Writer::free_io(AVIOContext* io) {
  delete static_cast<Cursor*>(io->opaque);
  av_freep(&io->buffer);
  avio_context_free(&io);
}

int Mp4Writer::read_bytes(void* opaque, uint8_t* buffer, int size) noexcept {
  auto& cursor = *static_cast<Cursor*>(opaque);
  const int64_t count = std::min<int64_t>(size, cursor.file->size() - cursor.position);
  if (count <= 0) return AVERROR_EOF;
  const int64_t n = cursor.file->read(cursor.position, buffer, count);
  if (n > 0) cursor.position += n;
  return static_cast<int>(n);
}

int Mp4Writer::write_bytes(void* opaque, Written buffer, int size) noexcept {
  auto& cursor = *static_cast<Cursor*>(opaque);
  const int64_t n = cursor.file->write(cursor.position, buffer, size);
  if (n > 0) cursor.position += n;
  return static_cast<int>(n);
}

int64_t Mp4Writer::seek_bytes(void* opaque, int64_t offset, int whence) noexcept {
  auto& cursor = *static_cast<Cursor*>(opaque);
  const int64_t size = cursor.file->size();
  if ((whence & AVSEEK_SIZE) != 0) return size;
  const int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? cursor.position : size;
  if (base + offset < cursor.file->first) return AVERROR(EINVAL);
  return cursor.position = base + offset;
}

// The muxer reopens "its file" for reading while it moves the media data after the index.
int Mp4Writer::reopen(AVFormatContext* format, AVIOContext** io, const char*, int flags, AVDictionary**) {
  *io = new_io(static_cast<Mp4Writer*>(format->opaque)->file_, (flags & AVIO_FLAG_WRITE) != 0);
  return *io != nullptr ? 0 : AVERROR(ENOMEM);
}

int Mp4Writer::close(AVFormatContext*, AVIOContext* io) {
  avio_flush(io);
  free_io(io);
  return 0;
}

AVStream* Mp4Writer::add(const AVCodecParameters& parameters, AVRational time_base) {
  if (avformat_query_codec(format_->oformat, parameters.codec_id, FF_COMPLIANCE_NORMAL) != 1) {
    throw MediaError("writing mp4: " + std::string(avcodec_get_name(parameters.codec_id)) +
                     " cannot be stored in MP4; re-encode the stream");
  }
  AVStream* stream = avformat_new_stream(format_, nullptr);
  if (stream == nullptr) throw std::bad_alloc();
  check(avcodec_parameters_copy(stream->codecpar, &parameters), "describing a stream");
  stream->codecpar->codec_tag = 0;  // the source container's tag may have another meaning in MP4
  stream->time_base = time_base;
  return stream;
}

AVStream* Mp4Writer::add(const AVCodecContext& encoder) {
  const ff::Owned<AVCodecParameters> parameters = ff::own(avcodec_parameters_alloc());
  check(avcodec_parameters_from_context(parameters.get(), &encoder), "describing a stream");
  AVStream* stream = add(*parameters, encoder.time_base);
  stream->avg_frame_rate = encoder.framerate;
  stream->sample_aspect_ratio = encoder.sample_aspect_ratio;
  return stream;
}

void Mp4Writer::start(int timescale) {
  AVDictionary* options = nullptr;
  av_dict_set(&options, "movflags", "faststart", 0);
  av_dict_set_int(&options, "movie_timescale", timescale, 0);
  write_header(options);
}

void Mp4Writer::start_fragments() {
  is_fragmented_ = true;
  AVDictionary* options = nullptr;
  av_dict_set(&options, "movflags", "empty_moov+default_base_moof+frag_custom+skip_trailer", 0);
  write_header(options);
}

void Mp4Writer::write_header(AVDictionary* options) {
  const int code = avformat_write_header(format_, &options);
  av_dict_free(&options);
  check(code, "the header");
}

std::vector<uint8_t> Mp4Writer::take() {
  avio_flush(format_->pb);
  check(format_->pb->error, "the last bytes");
  if (file_.descriptor >= 0) return {};
  file_.first = file_.size();
  return std::exchange(file_.bytes, {});
}

std::vector<uint8_t> Mp4Writer::end_fragment() {
  check(av_write_frame(format_, nullptr), "a fragment");
  return take();
}

void Mp4Writer::write(AVPacket& packet, const AVStream& stream, AVRational time_base) {
  packet.stream_index = stream.index;
  av_packet_rescale_ts(&packet, time_base, stream.time_base);
  if (is_fragmented_ || stream.codecpar->codec_type != AVMEDIA_TYPE_VIDEO) return put(packet);
  const bool is_first = tracks_.find(stream.index) == tracks_.end();
  Track& track = tracks_[stream.index];
  if (is_first) {
    track.first_dts = packet.dts;
    track.first_pts = packet.pts;
  }
  track.first_pts = std::min(track.first_pts, packet.pts);
  track.end = std::max(track.end, packet.pts + packet.duration);
  if (track.last) put(*track.last);
  track.last = ff::new_packet();
  av_packet_move_ref(track.last.get(), &packet);
}

void Mp4Writer::put(AVPacket& packet) { check(av_interleaved_write_frame(format_, &packet), "a packet"); }

// A track's length is the sum of its packets' durations in the order of decoding (ISO/IEC 14496-12, 8.6.1.2), in which
// the picture shown last need not be the last.
std::vector<uint8_t> Mp4Writer::finish() {
  for (auto& [index, track] : tracks_) {
    const int64_t length = track.end - track.first_pts, before = track.last->dts - track.first_dts;
    track.last->duration = std::max<int64_t>(1, length - before);
    put(*track.last);
  }
  check(av_write_trailer(format_), "the index");
  return take();
}

}  // namespace kinora::video
