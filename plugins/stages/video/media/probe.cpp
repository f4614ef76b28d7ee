#include "media/probe.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "media/byte_source.hpp"
#include "media/input.hpp"

namespace kinora::video {
namespace {

Rational rational(AVRational r) { return {r.num, r.den == 0 ? 1 : r.den}; }

std::string text(const char* name) { return name != nullptr ? name : "unknown"; }

Orientation orientation_of(const AVStream& stream) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
  const AVPacketSideData* side = av_packet_side_data_get(
      stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
  return side != nullptr ? by_display_matrix(side->data, side->size) : Orientation();
#else
  size_t size = 0;
  const uint8_t* matrix = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  return by_display_matrix(matrix, size);
#endif
}

std::string field_order(const AVFieldOrder& order) {
  switch (ff::tag(order, static_cast<AVFieldOrder>(AV_FIELD_BT + 1), AV_FIELD_UNKNOWN)) {
    case AV_FIELD_PROGRESSIVE:
      return "progressive";
    case AV_FIELD_TT:
      return "tt";
    case AV_FIELD_BB:
      return "bb";
    case AV_FIELD_TB:
      return "tb";
    case AV_FIELD_BT:
      return "bt";
    default:
      return "unknown";
  }
}

Colour colour_of(const AVColorSpace& matrix, const AVColorPrimaries& primaries,
                 const AVColorTransferCharacteristic& transfer, const AVColorRange& range) {
  return {ff::tag(matrix, AVCOL_SPC_NB, AVCOL_SPC_UNSPECIFIED),
          ff::tag(primaries, AVCOL_PRI_NB, AVCOL_PRI_UNSPECIFIED),
          ff::tag(transfer, AVCOL_TRC_NB, AVCOL_TRC_UNSPECIFIED),
          ff::tag(range, AVCOL_RANGE_NB, AVCOL_RANGE_UNSPECIFIED)};
}

double duration_of(const AVFormatContext& format, const AVStream& video) {
  if (video.duration > 0) return static_cast<double>(video.duration) * av_q2d(video.time_base);
  if (format.duration > 0) return static_cast<double>(format.duration) / AV_TIME_BASE;
  return 0;
}

// Number of shown frames according to the container, 0 if unknown: from an MP4's index after its edit list
// has been applied, else from the header.
int64_t counted_frames(const AVFormatContext& format, AVStream* stream) {
  const bool indexed = std::string_view(format.iformat->name).starts_with("mov");
  const int entries = avformat_index_get_entries_count(stream);
  if (!indexed || stream->nb_frames <= 0 || entries == 0) return stream->nb_frames;
  int64_t shown = 0;
  for (int i = 0; i < entries; ++i) {
    shown += (avformat_index_get_entry(stream, i)->flags & AVINDEX_DISCARD_FRAME) == 0;
  }
  return shown;
}

// End of the shown track in ticks, INT64_MIN if unknown. An MP4 keeps durations in order of decoding, so the packet of
// the picture shown last may say less or more than the length of the track (ISO/IEC 14496-12, 8.6.1.2).
int64_t declared_end(const AVFormatContext& format, const AVStream& stream) {
  const bool has_length = std::string_view(format.iformat->name).starts_with("mov") && stream.nb_frames > 0 &&
                          stream.duration > 0 && stream.start_time != AV_NOPTS_VALUE;
  return has_length ? stream.start_time + stream.duration : INT64_MIN;
}

// FFmpeg's guess is the rate of the usual distance between frames. Without one it falls back to the average, which
// says nothing where it is low.
Rational length_fps_of(const VideoInfo& video, const AVStream& stream) {
  constexpr int kUsual = 25, kSlowest = 10,
                kNoRate = 210;  // a base rate above kNoRate is the clock's (libavformat)
  if (video.fps.num <= 0) return {kUsual, 1};
  const bool has_no_distance = stream.r_frame_rate.den > 0 && av_q2d(stream.r_frame_rate) > kNoRate;
  return has_no_distance && video.fps.value() < kSlowest ? Rational{kSlowest, 1} : video.fps;
}

VideoInfo video_info(AVFormatContext* format, AVStream* stream) {
  const AVCodecParameters& p = *stream->codecpar;
  VideoInfo video;
  video.codec = avcodec_get_name(p.codec_id);
  video.pixel_format = text(av_get_pix_fmt_name(static_cast<AVPixelFormat>(p.format)));
  video.width = p.width;
  video.height = p.height;
  video.fps = rational(av_guess_frame_rate(format, stream, nullptr));
  const AVRational average = stream->avg_frame_rate;
  video.average_fps = average.num > 0 && average.den > 0 ? rational(average) : video.fps;
  video.length_fps = length_fps_of(video, *stream);
  video.time_base = rational(stream->time_base);
  video.rotation = orientation_of(*stream);
  const AVRational aspect = av_guess_sample_aspect_ratio(format, stream, nullptr);
  if (aspect.num > 0 && aspect.den > 0) video.sample_aspect = rational(aspect);
  video.colour = colour_of(p.color_space, p.color_primaries, p.color_trc, p.color_range);
  video.field_order = field_order(p.field_order);
  video.frames = counted_frames(*format, stream);
  video.end_pts = declared_end(*format, *stream);
  video.frames_estimated = video.frames <= 0;
  const double estimate = duration_of(*format, *stream) * video.fps.value();
  if (video.frames_estimated) video.frames = estimate < 1e15 ? std::llround(estimate) : 0;
  return video;
}

}  // namespace

// The display matrix (a b u, c d v, x y w) moves the stored pixel (p, q) to (a p + c q, b p + d q) of the shown
// picture (ISO/IEC 14496-12, 8.3.2). FFmpeg gives its turn, counter-clockwise, of the stored rows; a mirrored row
// is turned by half a turn more.
Orientation by_display_matrix(const uint8_t* matrix, size_t size) {
  std::array<int32_t, 9> m;
  if (matrix == nullptr || size < sizeof m) return {};
  std::memcpy(m.data(), matrix, sizeof m);
  const double counter_clockwise = av_display_rotation_get(m.data());
  if (!std::isfinite(counter_clockwise)) return {};
  const bool mirrored = static_cast<double>(m[0]) * m[4] < static_cast<double>(m[1]) * m[3];
  const int quarter_turns = static_cast<int>(std::lround(-counter_clockwise / 90)) + (mirrored ? 2 : 0);
  return {((quarter_turns % 4) + 4) % 4 * 90, mirrored};
}

int64_t VideoInfo::nominal_frame() const {
  const AVRational frame = fps.num > 0 && fps.den > 0 ? AVRational{fps.den, fps.num} : AVRational{1, 25};
  return std::clamp(av_rescale_q(1, frame, {time_base.num, time_base.den}), int64_t{1}, kLongestFrame);
}

int64_t VideoInfo::end_of_last(int64_t pts, int64_t duration) const {
  const int64_t by_packet = pts + duration;
  if (end_pts <= pts || end_pts - pts > kLongestFrame) return by_packet;
  return std::abs(end_pts - by_packet) > nominal_frame() / 2 ? end_pts : by_packet;
}

Colour Colour::of(const AVFrame& frame) {
  return colour_of(frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range);
}

std::string Colour::matrix_name() const {
  return matrix >= 0 && matrix < AVCOL_SPC_NB ? text(av_color_space_name(static_cast<AVColorSpace>(matrix)))
                                              : "unknown";
}

std::string Colour::range_name() const {
  return range >= 0 && range < AVCOL_RANGE_NB ? text(av_color_range_name(static_cast<AVColorRange>(range)))
                                              : "unknown";
}

std::string missing_bytes(ByteSource& source) {
  const int64_t declared = declared_size(source), found = source.size();
  if (declared <= found) return "";
  return "cut off: its container declares " + std::to_string(declared) + " bytes, the file has " +
         std::to_string(found) + "; fetch it again";
}

Probe describe(const Input& input, ByteSource& source, const std::string& name) {
  Probe probe;
  probe.container = input.format()->iformat->name;
  if (input.video() == nullptr) {
    throw MediaError(name + ": no video stream, only sound or data (" + probe.container +
                     "); give a file with video");
  }
  probe.video = video_info(input.format(), input.video());
  if (probe.video.width <= 0 || probe.video.height <= 0) {
    const std::string cut = missing_bytes(source);
    throw MediaError(name + ": the headers of its " + probe.video.codec + " stream have no picture size; " +
                     (cut.empty() ? "the file is damaged or cut off" : cut));
  }
  probe.duration_s = duration_of(*input.format(), *input.video());
  if (const AVStream* audio = input.audio()) {
    const AVCodecParameters& p = *audio->codecpar;
    probe.audio = AudioInfo{avcodec_get_name(p.codec_id), p.sample_rate, p.ch_layout.nb_channels};
  }
  const AVDictionaryEntry* entry = nullptr;
  while ((entry = av_dict_get(input.format()->metadata, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr) {
    probe.metadata.emplace_back(entry->key, entry->value);
  }
  probe.damage = missing_bytes(source);
  return probe;
}

Probe probe(ByteSource& source, const std::string& name, const Limits& limits) {
  const Input input(source, name, limits);
  return describe(input, source, name);
}

namespace {

constexpr int64_t kMaxSize = std::numeric_limits<int64_t>::max() / 4;
constexpr int kMaxBoxes = 100'000;

uint64_t big_endian(const uint8_t* bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value = value << 8 | bytes[i];
  return value;
}

uint64_t little_endian32(const uint8_t* bytes) {
  return bytes[0] | uint64_t{bytes[1]} << 8 | uint64_t{bytes[2]} << 16 | uint64_t{bytes[3]} << 24;
}

bool is_box_type(const uint8_t* type) {
  return std::all_of(type, type + 4, [](uint8_t c) { return c >= 0x20 && c <= 0x7E; });
}

// Walks the outermost boxes. A box of size 0 extends to the end of the file; bytes that form no box are
// padding.
int64_t iso_extent(ByteSource& source) {
  std::array<uint8_t, 16> head;
  int64_t offset = 0;
  for (int box = 0; offset < source.size(); ++box) {
    const int64_t got = source.read_at(offset, head.data(), 16);
    if (got < 8 || !is_box_type(head.data() + 4)) return offset;
    if (box == kMaxBoxes) return 0;
    uint64_t size = big_endian(head.data(), 4);
    if (size == 1 && got == 16) size = big_endian(head.data() + 8, 8);
    if (size == 0) return source.size();
    if (size < 8 || size > static_cast<uint64_t>(kMaxSize - offset)) return 0;
    offset += static_cast<int64_t>(size);
  }
  return offset;
}

struct Vint {
  uint64_t value = 0;
  int length = 0;  // bytes; 0 if malformed
  bool unknown = false;
};

Vint read_vint(ByteSource& source, int64_t offset) {
  std::array<uint8_t, 8> bytes{};
  if (source.read_at(offset, bytes.data(), 8) < 1 || bytes[0] == 0) return {};
  const int length = __builtin_clz(bytes[0]) - 24 + 1;
  const uint64_t mask = (uint64_t{1} << (7 * length)) - 1;
  const uint64_t value = big_endian(bytes.data(), length) & mask;
  return {value, length, value == mask};
}

// EBML header, then one Segment: its four-byte id, its size, its body.
int64_t matroska_extent(ByteSource& source) {
  const Vint header = read_vint(source, 4);
  if (header.length == 0 || header.unknown || header.value > 4096) return 0;
  const int64_t segment = 4 + header.length + static_cast<int64_t>(header.value);
  const Vint body = read_vint(source, segment + 4);
  if (body.length == 0 || body.unknown || body.value > static_cast<uint64_t>(kMaxSize)) return 0;
  return segment + 4 + body.length + static_cast<int64_t>(body.value);
}

// RIFF chunks follow each other (OpenDML); any other bytes after them do not belong to the container.
int64_t riff_extent(ByteSource& source) {
  std::array<uint8_t, 8> head;
  int64_t offset = 0;
  while (source.read_at(offset, head.data(), 8) == 8 && std::memcmp(head.data(), "RIFF", 4) == 0) {
    const uint64_t size = little_endian32(head.data() + 4);
    if (size == 0) return 0;
    offset += 8 + static_cast<int64_t>(size + size % 2);
  }
  return offset;
}

}  // namespace

int64_t declared_size(ByteSource& source) {
  std::array<uint8_t, 12> head{};
  if (source.read_at(0, head.data(), 12) < 12) return 0;
  static constexpr uint8_t kEbml[4] = {0x1A, 0x45, 0xDF, 0xA3};
  if (std::memcmp(head.data(), kEbml, 4) == 0) return matroska_extent(source);
  if (std::memcmp(head.data(), "RIFF", 4) == 0) return riff_extent(source);
  for (const char* box : {"ftyp", "moov", "mdat", "free", "skip", "wide", "styp", "pnot"}) {
    if (std::memcmp(head.data() + 4, box, 4) == 0) return iso_extent(source);
  }
  return 0;
}

}  // namespace kinora::video
