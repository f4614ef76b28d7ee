// The headers of a video, and whether the file is complete.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "media/byte_source.hpp"
#include "media/orientation.hpp"

struct AVFrame;

namespace kinora::video {

struct Rational {
  int num = 0;
  int den = 1;
  double value() const { return den == 0 ? 0.0 : static_cast<double>(num) / den; }
  friend bool operator==(const Rational&, const Rational&) = default;
};

// Limits above which a video is refused, so that a hostile header cannot exhaust memory.
struct Limits {
  int max_side = 16384;                   // pixels, for width and height each
  int64_t max_pixels = int64_t{1} << 26;  // width * height; 8192 x 8192
};

// Code points of ITU-T H.273: the numbers that H.264, MP4 and FFmpeg write. 2 is "unspecified" (range: 0).
struct Colour {
  int matrix = 2;
  int primaries = 2;
  int transfer = 2;
  int range = 0;  // 0 unspecified, 1 limited (16..235), 2 full (0..255)

  static Colour of(const AVFrame& frame);
  std::string matrix_name() const;  // "bt709", "smpte170m", "unknown", ...
  std::string range_name() const;   // "tv", "pc", "unknown"
  friend bool operator==(const Colour&, const Colour&) = default;
};

constexpr int64_t kLongestFrame = int64_t{1} << 32;  // ticks

struct VideoInfo {
  std::string codec;         // FFmpeg's name: "h264", "vp9", "theora"
  std::string pixel_format;  // "yuv420p", "yuv444p10le", ...
  int width = 0;             // pixels as stored, before rotation and sample aspect ratio
  int height = 0;
  Rational fps;          // nominal; 0/1 if the container does not indicate it
  Rational average_fps;  // frames over the whole length; fps if the container does not indicate it
  // Frames per second by which lengths in frames count, never 0: fps, not average_fps, which one picture that stands
  // for minutes makes useless.
  Rational length_fps{25, 1};
  Rational time_base;  // seconds per tick of a timestamp
  int64_t frames = 0;  // counted by the container or, if frames_estimated, duration * fps
  bool frames_estimated = true;
  Orientation rotation;          // makes the stored picture upright
  Rational sample_aspect{1, 1};  // width : height of a stored pixel
  Colour colour;
  std::string field_order = "unknown";  // "progressive", "tt", "bb", "tb", "bt" or "unknown"
  int64_t end_pts = INT64_MIN;          // end of the picture shown last, in ticks; INT64_MIN: not declared
  int64_t nominal_frame() const;        // ticks of a frame by fps, or by 25 without one; 1 to kLongestFrame
  // Where the picture that is shown last, from `pts` on, ends. Its packet says how long it lasts in order of decoding,
  // the container how long the track is shown, rounded to its own clock.
  int64_t end_of_last(int64_t pts, int64_t duration) const;
};

struct AudioInfo {
  std::string codec;
  int rate = 0;  // samples per second
  int channels = 0;
};

struct Probe {
  std::string container;  // FFmpeg's name: "mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm"
  double duration_s = 0;  // 0 if the container does not say
  VideoInfo video;
  std::optional<AudioInfo> audio;
  std::vector<std::pair<std::string, std::string>> metadata;  // of the container: title, comment, ...
  // Not empty if bytes are missing ("cut off: its container declares ..."); the headers above are still
  // valid.
  std::string damage;
};

// Reads the headers of a video, and as many packets as the codec parameters need. `name` is for messages.
// MediaError if the source is empty, not media, a playlist, without a video stream, cut off before the
// headers end, or larger than the limits. The source is borrowed for the call.
Probe probe(ByteSource& source, const std::string& name, const Limits& limits = {});

class Input;

// The same for an input that is already open.
Probe describe(const Input& input, ByteSource& source, const std::string& name);

// Reads FFmpeg's display matrix of a stream or picture; upright if there is none.
Orientation by_display_matrix(const uint8_t* matrix, size_t size);

// Message for a source that is shorter than its container declares; empty if it is complete or the size is
// unknown.
std::string missing_bytes(ByteSource& source);

// File size in bytes that the container declares: the end of the outermost boxes of MP4/MOV (ISO/IEC
// 14496-12, 4.2), of the Matroska Segment (RFC 8794, 4-6), or of the RIFF chunks of AVI. 0 for other
// containers and for sizes left open by a live recorder. A shorter file was cut off; demuxers end such a file
// without an error.
int64_t declared_size(ByteSource& source);

}  // namespace kinora::video
