#pragma once

// Shared by the tests of this folder: the real clips in KINORA_TEST_DATA, generated videos, and measures.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "media/byte_source.hpp"
#include "media/decoder.hpp"
#include "media/encoder.hpp"
#include "media/ffmpeg.hpp"

extern "C" {
#include <libavutil/imgutils.h>
}

namespace kinora::video::testing {

using Bytes = std::vector<uint8_t>;

inline std::filesystem::path data(const std::string& name) {
  return std::filesystem::path(KINORA_TEST_DATA) / name;
}

inline Bytes load(const std::string& name) {
  FileSource file(data(name));
  Bytes bytes(static_cast<size_t>(file.size()));
  file.read_at(0, bytes.data(), file.size());
  return bytes;
}

inline Bytes text(const std::string& content) { return {content.begin(), content.end()}; }

// [H, W, 3] with a soft blob that moves three pixels per frame over a textured background: every frame
// differs from its neighbours.
inline Bytes picture(int width, int height, int64_t frame) {
  Bytes rgb(static_cast<size_t>(width) * height * 3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double dx = x - std::fmod(3.0 * frame + width / 4.0, width), dy = y - height / 2.0;
      const double blob = 150 * std::exp(-(dx * dx + dy * dy) / (0.02 * width * width));
      const double ground = 50 + 20 * std::sin(x * 0.35) + 20 * std::cos(y * 0.3);
      uint8_t* pixel = &rgb[(static_cast<size_t>(y) * width + x) * 3];
      pixel[0] = static_cast<uint8_t>(ground + blob);
      pixel[1] = static_cast<uint8_t>(ground);
      pixel[2] = static_cast<uint8_t>(100 + ground - blob / 3);
    }
  }
  return rgb;
}

inline EncoderOptions small_video(int width = 96, int height = 64) {
  EncoderOptions options;
  options.width = width;
  options.height = height;
  options.preset = "veryfast";
  return options;
}

// `frames` pictures at the options' rate. With audio in the options: a second-long ramp of clicks, one at
// each frame's start.
inline Bytes make_video(const EncoderOptions& options, int64_t frames) {
  Encoder encoder(options);
  for (int64_t i = 0; i < frames; ++i) {
    encoder.write_rgb(picture(options.width, options.height, i).data());
    if (options.audio.rate == 0) continue;
    const auto at = [&](int64_t frame) {
      return av_rescale_q(frame, {options.fps.den, options.fps.num}, {1, options.audio.rate});
    };
    std::vector<float> samples(static_cast<size_t>(at(i + 1) - at(i)));
    for (size_t n = 0; n < samples.size() && n < 240; ++n) {
      samples[n] = static_cast<float>(0.8 * std::sin(0.05 * static_cast<double>(n) * (1 + i % 7)));
    }
    const std::vector<const float*> planes(static_cast<size_t>(options.audio.channels), samples.data());
    encoder.write_audio(planes.data(), static_cast<int64_t>(samples.size()));
  }
  return encoder.finish();
}

// Returns the frame's luma (or first plane) as packed rows.
inline Bytes luma(const AVFrame& frame) {
  Bytes rows;
  for (int y = 0; y < frame.height; ++y) {
    const uint8_t* row = frame.data[0] + ptrdiff_t{frame.linesize[0]} * y;
    rows.insert(rows.end(), row, row + frame.width);
  }
  return rows;
}

// Returns all planes of the frame, packed.
inline Bytes planes(const AVFrame& f) {
  const auto format = static_cast<AVPixelFormat>(f.format);
  Bytes all(static_cast<size_t>(av_image_get_buffer_size(format, f.width, f.height, 1)));
  av_image_copy_to_buffer(all.data(), static_cast<int>(all.size()), f.data, f.linesize, format, f.width,
                          f.height, 1);
  return all;
}

inline double psnr(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size() || a.empty()) return -1;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum == 0 ? 99 : 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}

struct Decoded {
  std::vector<Bytes> luma;
  std::vector<int64_t> pts;
  std::vector<double> seconds;
  std::string damage;
  Probe probe;
};

inline Decoded decode(ByteSource& source, const std::string& name, const DecoderOptions& options = {}) {
  Decoder decoder(source, name, options);
  Decoded all;
  all.probe = decoder.probe();
  while (const Frame* frame = decoder.next()) {
    EXPECT_EQ(frame->index, static_cast<int64_t>(all.pts.size()));
    all.luma.push_back(luma(*frame->picture));
    all.pts.push_back(frame->pts);
    all.seconds.push_back(frame->seconds);
  }
  all.damage = decoder.damaged();
  return all;
}

inline Decoded decode(const Bytes& video, const DecoderOptions& options = {}) {
  MemorySource source{std::span(video)};
  return decode(source, "made.mp4", options);
}

// Runs `call` and returns the message of the MediaError that it must throw.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    EXPECT_NE(dynamic_cast<const MediaError*>(&error), nullptr) << "not a MediaError: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// Whether the ffmpeg program can encode with NVENC.
inline bool ffmpeg_has_nvenc() {
  return std::system(
             "ffmpeg -nostdin -v quiet -f lavfi -i testsrc2=size=256x256:duration=0.2 -c:v h264_nvenc -f "
             "null - >/dev/null 2>&1") == 0;
}

}  // namespace kinora::video::testing
