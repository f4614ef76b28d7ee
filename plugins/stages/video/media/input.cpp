#include "media/input.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstring>
#include <string_view>

#include "media/byte_source.hpp"
#include "media/probe.hpp"
#include "media/sent_packets.hpp"

namespace kinora::video {
namespace {

constexpr int kReadBytes = 64 * 1024;

// Only self-contained media. FFmpeg names a demuxer by all its aliases; the first one identifies it.
constexpr std::array<std::string_view, 33> kContainers = {
    "mov",          "matroska", "ogg",  "avi",       "flv",       "live_flv", "mpegts", "mpeg", "asf",
    "mxf",          "gxf",      "nut",  "rm",        "dv",        "ivf",      "gif",    "apng", "h264",
    "hevc",         "m4v",      "h263", "mpegvideo", "vc1",       "vc1test",  "av1",    "obu",  "mjpeg",
    "yuv4mpegpipe", "wtv",      "nsv",  "png_pipe",  "jpeg_pipe", "webp_pipe"};

// Of files that are named as media.
constexpr const char* kEndings =
    "mp4,m4v,mov,mkv,webm,avi,ts,m2ts,mts,mpg,mpeg,flv,wmv,asf,mxf,ogv,ogg,3gp,gif,png,jpg,jpeg,webp";

constexpr std::array<std::string_view, 9> kPlaylists = {
    "hls", "dash", "concat", "sdp", "rtsp", "imf", "image2", "lavfi", "webm_dash_manifest"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view demuxer) {
  return std::find(names.begin(), names.end(), demuxer.substr(0, demuxer.find(','))) != names.end();
}

int refuse_to_open(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EPERM);
}

bool is_picture(const AVStream& stream) {
  return (stream.disposition & (AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS)) != 0;
}

AVStream* best_stream(AVFormatContext* format, AVMediaType type) {
  const int best = av_find_best_stream(format, type, -1, -1, nullptr, 0);
  if (best >= 0 && !is_picture(*format->streams[best])) return format->streams[best];
  for (unsigned i = 0; i < format->nb_streams; ++i) {
    AVStream* stream = format->streams[i];
    if (stream->codecpar->codec_type == type && !is_picture(*stream)) return stream;
  }
  return nullptr;
}

}  // namespace

Input::Input(ByteSource& source, const std::string& name, const Limits& limits)
    : source_(source), name_(name) {
  ff::silence_library_log();
  if (source.size() == 0) throw MediaError(name + ": the file is empty; fetch it again");
  auto* buffer = static_cast<unsigned char*>(av_malloc(kReadBytes));
  if (buffer == nullptr) throw std::bad_alloc();
  io_.reset(avio_alloc_context(buffer, kReadBytes, 0, this, &Input::read_bytes, nullptr, &Input::seek_bytes));
  if (!io_) {
    av_free(buffer);
    throw std::bad_alloc();
  }
  try {
    open(limits);
    find_streams(limits);
  } catch (...) {
    avformat_close_input(&format_);
    throw;
  }
}

Input::~Input() { avformat_close_input(&format_); }

// Takes the errors that the demuxer logs while it reads, on this thread, and those of decoders, on any.
class Input::Watch {
 public:
  explicit Watch(Input& input) {
    av_log_set_callback(
        &Watch::take);  // each time: FFmpeg has one, and a program and its plugin may both read
    watched() = &input;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { watched() = nullptr; }

 private:
  static Input*& watched() {
    thread_local Input* input = nullptr;
    return input;
  }
  // Called by FFmpeg for every message of every thread; the library's log stays silent.
  static void take(void* of, int level, const char* what, va_list) noexcept {
    // ASF's demuxer says this at a lower level when the end of a packet is missing.
    const bool is_loss = std::string_view(what).starts_with("freeing incomplete packet");
    if (of == nullptr || (level > AV_LOG_ERROR && !is_loss)) return;
    if (*static_cast<const AVClass* const*>(of) == avcodec_get_class())
      return SentPackets::take_error(*static_cast<const AVCodecContext*>(of));
    Input* input = watched();
    if (input == nullptr || of != input->format_) return;
    constexpr size_t kMost = 1000;
    const int64_t at = avio_tell(input->format_->pb);
    const bool is_cut = at >= input->source_.size();  // missing_bytes() says so
    if (!is_cut && input->damage_at_.size() < kMost) input->damage_at_.push_back(at);
  }
};

void Input::mark(AVPacket& packet) {
  const bool is_of_video = video_ != nullptr && packet.stream_index == video_->index;
  const auto is_behind = [&] {
    return !damage_at_.empty() && (packet.pos < 0 || packet.pos >= damage_at_.front());
  };
  if (!is_of_video) return;
  const bool skips = packet.pos >= 0 && skips_indexed(packet.pos);
  if (!skips && !is_behind()) return;
  packet.flags |= AV_PKT_FLAG_CORRUPT;
  while (is_behind()) damage_at_.pop_front();
}

// Whether packets of the video that the file's index names between the last one and this place were passed over. AVI's
// demuxer does so silently and closes the gap in time. Empty entries repeat a picture.
bool Input::skips_indexed(int64_t position) {
  constexpr int64_t kHead = 8;  // of a chunk; packets may be placed before or after it
  if (std::string_view(format_->iformat->name) != "avi" || video_ == nullptr) return false;
  bool skips = false;
  for (; const AVIndexEntry* entry = avformat_index_get_entry(video_, indexed_); ++indexed_) {
    if (entry->pos >= position - kHead) break;
    skips = skips || (read_to_ >= 0 && entry->size > 0 && entry->pos > read_to_);
  }
  read_to_ = position;
  return skips;
}

void Input::rethrow() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

int Input::read_bytes(void* self, uint8_t* buffer, int size) noexcept {
  auto& input = *static_cast<Input*>(self);
  try {
    const int64_t got = input.source_.read_at(input.position_, buffer, size);
    if (got <= 0) return AVERROR_EOF;
    input.position_ += got;
    return static_cast<int>(got);
  } catch (...) {
    input.failure_ = std::current_exception();
    return AVERROR(EIO);
  }
}

int64_t Input::seek_bytes(void* self, int64_t offset, int whence) noexcept {
  auto& input = *static_cast<Input*>(self);
  try {
    const int64_t size = input.source_.size();
    if ((whence & AVSEEK_SIZE) != 0) return size;
    whence &= ~AVSEEK_FORCE;
    const int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? input.position_ : size;
    if (offset < -base || offset > INT64_MAX - base) return AVERROR(EINVAL);
    return input.position_ = base + offset;
  } catch (...) {
    input.failure_ = std::current_exception();
    return AVERROR(EIO);
  }
}

const AVInputFormat* Input::identify() const {
  const AVInputFormat* demuxer = nullptr;
  const int score = av_probe_input_buffer2(io_.get(), &demuxer, nullptr, nullptr, 0, 0);
  if (failure_) std::rethrow_exception(failure_);
  const std::string_view kind = demuxer != nullptr ? demuxer->name : "";
  if (contains(kPlaylists, kind)) {
    throw MediaError(name_ + ": a playlist (" + std::string(kind) +
                     ") names other files and is not opened; give the media files themselves");
  }
  if (score < 0 || !contains(kContainers, kind)) {
    const std::string guess = kind.empty() ? "" : " (it looks like " + std::string(kind) + ")";
    const bool is_named_so = av_match_ext(name_.c_str(), kEndings) != 0;
    throw MediaError(name_ + ": not a video file or picture" + guess +
                     (is_named_so ? "; no known container is inside; fetch it again"
                                  : "; give a container such as mp4, mkv, webm or mpegts, or a PNG or JPEG"));
  }
  return demuxer;
}

void Input::open(const Limits& limits) {
  const AVInputFormat* demuxer = identify();
  format_ = avformat_alloc_context();
  if (format_ == nullptr) throw std::bad_alloc();
  format_->pb = io_.get();
  format_->flags |= AVFMT_FLAG_CUSTOM_IO;
  format_->io_open = &refuse_to_open;
  AVDictionary* options = nullptr;
  av_dict_set(&options, "protocol_whitelist", "none", 0);
  const int code =
      avformat_open_input(&format_, nullptr, demuxer, &options);  // frees and clears format_ on failure
  av_dict_free(&options);
  rethrow();
  if (code >= 0) {
    for (unsigned i = 0; i < format_->nb_streams; ++i) check_size(*format_->streams[i], limits);
    return;
  }
  const std::string cut = missing_bytes(source_);
  if (!cut.empty()) throw MediaError(name_ + ": " + cut);
  const bool mov = std::string_view(demuxer->name).starts_with("mov");
  throw MediaError(
      name_ + ": the " + std::string(demuxer->name) + " headers cannot be read (" + ff::error_text(code) +
      (mov ? "; most often the index (moov) is missing because the file was cut off or never finished"
           : "; the file is damaged or cut off") +
      "); fetch it again or repair it");
}

void Input::check_size(const AVStream& stream, const Limits& limits) const {
  const int64_t width = stream.codecpar->width, height = stream.codecpar->height;
  if (width <= limits.max_side && height <= limits.max_side && width * height <= limits.max_pixels) return;
  throw MediaError(name_ + ": the picture is " + std::to_string(width) + " x " + std::to_string(height) +
                   " pixels, over the limit of " + std::to_string(limits.max_side) + " per side and " +
                   std::to_string(limits.max_pixels) + " in total; scale it down or raise the limit");
}

void Input::find_streams(const Limits& limits) {
  // One dictionary per stream known so far, so that decoders that FFmpeg opens to find parameters obey the
  // limit too.
  std::vector<AVDictionary*> options(format_->nb_streams, nullptr);
  for (AVDictionary*& option : options) {
    av_dict_set_int(&option, "max_pixels", limits.max_pixels, 0);
    av_dict_set_int(&option, "threads", 1, 0);
  }
  const int code = [&] {
    const Watch watch(*this);
    return avformat_find_stream_info(format_, options.empty() ? nullptr : options.data());
  }();
  for (AVDictionary*& option : options) av_dict_free(&option);
  rethrow();
  if (code < 0) {
    throw MediaError(name_ + ": its streams cannot be read (" + ff::error_text(code) + "); fetch it again");
  }
  for (unsigned i = 0; i < format_->nb_streams; ++i) check_size(*format_->streams[i], limits);
  video_ = best_stream(format_, AVMEDIA_TYPE_VIDEO);
  audio_ = best_stream(format_, AVMEDIA_TYPE_AUDIO);
  recordings_.open(video_, audio_, std::string_view(format_->iformat->name) == "mpegts",
                   [this](AVPacket& packet) {
                     const Watch watch(*this);
                     const int code = av_read_frame(format_, &packet);
                     rethrow();
                     if (code >= 0) mark(packet);
                     return code;
                   });
}

// Where clocks may leap the video is read in any case, because its clock is that of all streams.
void Input::select(const AVStream* wanted) {
  const bool leaps = (format_->iformat->flags & AVFMT_TS_DISCONT) != 0;
  for (unsigned i = 0; i < format_->nb_streams; ++i) {
    AVStream* stream = format_->streams[i];
    const bool is_read = stream == wanted || (leaps && stream == video_);
    stream->discard = is_read ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
  }
}

int Input::read(AVPacket& packet) { return recordings_.read(packet); }

int Input::seek(const AVStream* stream, int64_t timestamp) {
  damage_at_.clear();
  read_to_ = -1;
  indexed_ = 0;
  const int code = av_seek_frame(format_, stream->index, timestamp, AVSEEK_FLAG_BACKWARD);
  rethrow();
  recordings_.forget();
  return code;
}

namespace {

// Whether the decoder fills parts of a picture that damage left empty.
bool conceals(AVCodecID codec) {
  switch (codec) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_AV1:
      return true;
    default:
      return false;
  }
}

// Clears buffers, so that parts a decoder leaves empty do not show an earlier picture: the same file gives
// the same pictures.
int cleared_buffer(AVCodecContext* decoder, AVFrame* frame, int flags) {
  const int code = avcodec_default_get_buffer2(decoder, frame, flags);
  for (int i = 0; code >= 0 && i < AV_NUM_DATA_POINTERS && frame->buf[i] != nullptr; ++i)
    std::memset(frame->buf[i]->data, 0, frame->buf[i]->size);
  return code;
}

}  // namespace

ff::Owned<AVCodecContext> open_decoder(const AVStream& stream, const std::string& name, int threads,
                                       const Limits& limits, bool motion_vectors) {
  const std::string codec_name = avcodec_get_name(stream.codecpar->codec_id);
  const AVCodec* codec = avcodec_find_decoder(stream.codecpar->codec_id);
  if (codec == nullptr) {
    throw MediaError(name + ": no decoder for " + codec_name +
                     " in this FFmpeg; install one with it or convert the file");
  }
  auto decoder = ff::own(avcodec_alloc_context3(codec));
  int code = avcodec_parameters_to_context(decoder.get(), stream.codecpar);
  if (code >= 0) {
    decoder->pkt_timebase = stream.time_base;
    decoder->thread_count = std::max(1, threads);
    decoder->max_pixels = limits.max_pixels;
    if (!conceals(decoder->codec_id)) decoder->get_buffer2 = cleared_buffer;
    if (motion_vectors) decoder->export_side_data |= AV_CODEC_EXPORT_DATA_MVS;
    code = avcodec_open2(decoder.get(), codec, nullptr);
  }
  if (code < 0) {
    throw MediaError(name + ": the " + codec_name + " decoder rejects the stream (" + ff::error_text(code) +
                     "); the file is damaged or uses a profile this FFmpeg lacks");
  }
  return decoder;
}

}  // namespace kinora::video
