#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "media/byte_source.hpp"
#include "media/probe.hpp"

struct AVFrame;

namespace kinora::video {

// Format of audio that is given as samples and encoded to AAC-LC.
struct AudioFormat {
  int rate = 0;          // samples per second; 0: no audio. A rate that AAC lacks is resampled to 48 kHz
  int channels = 0;      // 1..6 or 8, in FFmpeg's default layout for that number
  int64_t bit_rate = 0;  // bits per second; 0: 96,000 per channel
};

struct EncoderOptions {
  int width = 0;  // pixels; an odd last column or row is cut off, because 4:2:0 needs even sides
  int height = 0;
  Rational fps{24, 1};       // nominal rate, and the clock of write_rgb()
  Rational time_base{0, 1};  // seconds per tick of write()'s pts; 0/1 means 1/fps
  int crf = 18;              // x264's quality, 0 (lossless) to 51
  std::string preset = "medium";
  int threads = 1;       // the bytes depend on it; for a given number x264 is reproducible
  int key_interval = 0;  // most frames between key frames; 0: x264's default (250)
  // "": libx264, or libopenh264 where FFmpeg has no libx264; or one of these, "h264_nvenc", or "auto": NVIDIA's
  // if it can be opened, else as "".
  std::string codec;
  int parameter_set = 0;         // id of x264's sequence and picture parameter sets, 0 to 31
  bool length_prefixed = false;  // x264 writes packets and headers in MP4's form, without start codes
  // The packet of a frame comes as soon as the frame's end is known: no reordered frames, no look-ahead, and no key
  // frames but the forced ones and those of key_interval.
  bool low_latency = false;
  Colour colour{1, 1, 1, 1};  // tags to write: BT.709, limited range. The file's range is always limited
  Rational sample_aspect{1, 1};
  Orientation turn;  // by which write() makes the frames upright; width and height apply to the upright frame
  int rotation_tag = 0;  // degrees clockwise by which players should turn (display matrix)
  AudioFormat audio;
  std::vector<std::pair<std::string, std::string>> metadata;  // title, comment, ...: see Mp4Writer
};

// Whether FFmpeg can open NVIDIA's encoder on this machine, which codec "auto" then uses. Checked once.
// [any-thread]
bool nvenc_opens();

// Encodes H.264 (x264, yuv420p) into an MP4 in memory, index in front; the bytes are reproducible on one
// machine.
//
// [owner-thread] Memory: the file so far plus x264's look-ahead. After an exception only destruction is
// allowed.
class Encoder {
 public:
  // MediaError if this FFmpeg lacks libx264, or for a bad size, preset, crf or metadata key.
  explicit Encoder(EncoderOptions options);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // Writes [H, W, 3] uint8 of the options' size (with its odd column or row), shown 1/fps after the previous
  // frame.
  void write_rgb(const uint8_t* rgb);

  // Writes a frame of any size and format, turned, converted and scaled to the file's, shown at `pts` ticks,
  // which must increase. A frame that already has the file's form is encoded unchanged.
  void write(const AVFrame& frame, int64_t pts);

  // Appends `count` samples per channel (planes[channel][i], in [-1, 1]); the first sample sounds at pts 0.
  void write_audio(const float* const* planes, int64_t count);

  // Ends the last frame at `end_pts` ticks (-1: 1/fps after its start) and returns the file. The encoder must
  // not be used afterwards.
  std::vector<uint8_t> finish(int64_t end_pts = -1);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// x264's presets, fastest first.
inline constexpr std::array<std::string_view, 10> kPresets = {"ultrafast", "superfast", "veryfast", "faster",
                                                              "fast",      "medium",    "slow",     "slower",
                                                              "veryslow",  "placebo"};

// The same as choices of an option.
inline std::vector<std::string> preset_names() { return {kPresets.begin(), kPresets.end()}; }

}  // namespace kinora::video
