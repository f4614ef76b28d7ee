#pragma once

// The H.264 encoders used by FrameEncoder: checks options and opens an instance.

#include <algorithm>
#include <string>

#include "media/byte_source.hpp"
#include "media/encoder.hpp"
#include "media/ffmpeg.hpp"

namespace kinora::video {

inline void check_h264(int code, const std::string& what) {
  if (code < 0) throw MediaError("encoding h264: " + what + " failed (" + ff::error_text(code) + ")");
}

// MediaError for options that x264 would refuse with another message or change silently.
inline void validate_h264(const EncoderOptions& o) {
  constexpr int kMaxSide = Limits{}.max_side;
  if (o.width < 1 || o.height < 1 || o.width > kMaxSide || o.height > kMaxSide) {
    throw MediaError("encoding h264: a picture of " + std::to_string(o.width) + " x " +
                     std::to_string(o.height) + " pixels; give sides from 1 to " + std::to_string(kMaxSide));
  }
  if (o.fps.num <= 0 || o.fps.den <= 0) throw MediaError("encoding h264: fps must be above 0");
  if (o.crf < 0 || o.crf > 51) {
    throw MediaError("encoding h264: crf " + std::to_string(o.crf) + "; give 0 (lossless) to 51");
  }
  if (std::find(kPresets.begin(), kPresets.end(), o.preset) == kPresets.end()) {
    throw MediaError("encoding h264: unknown preset '" + o.preset +
                     "'; give ultrafast, superfast, veryfast, faster, " +
                     "fast, medium, slow, slower, veryslow or placebo");
  }
  if (!o.codec.empty() && o.codec != "libx264" && o.codec != "libopenh264" && o.codec != "h264_nvenc" &&
      o.codec != "auto")
    throw MediaError("encoding h264: unknown encoder '" + o.codec +
                     "'; give libx264, libopenh264, h264_nvenc or auto");
  const int turn = o.turn.degrees;
  if (turn % 90 != 0 || turn < 0 || turn > 270 || o.rotation_tag % 90 != 0) {
    throw MediaError("encoding h264: turn and rotation_tag must be quarter turns: 0, 90, 180 or 270 degrees");
  }
}

// The AVX-512 code of x264 164 reads uninitialised memory, so for most picture sizes the bytes depend on
// earlier heap contents. Its AVX2 code does not, and is as fast.
inline const char* reproducible_instructions() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "asm=AVX2";
#endif
  return nullptr;
}

inline std::string x264_params(const EncoderOptions& o) {
  std::string all;
  const auto add = [&](const std::string& param) { all += (all.empty() ? "" : ":") + param; };
  if (const char* instructions = reproducible_instructions()) add(instructions);
  if (o.parameter_set != 0) add("sps-id=" + std::to_string(o.parameter_set));
  if (o.length_prefixed) add("annexb=0");
  if (o.low_latency) add("bframes=0:scenecut=0");
  return all;
}

// Common settings of all encoders: width x height (even) with the given clock.
inline ff::Owned<AVCodecContext> new_h264(const AVCodec& codec, const EncoderOptions& o, int width,
                                          int height, AVRational time_base) {
  auto encoder = ff::own(avcodec_alloc_context3(&codec));
  encoder->width = width;
  encoder->height = height;
  encoder->pix_fmt = AV_PIX_FMT_YUV420P;
  encoder->time_base = time_base;
  encoder->framerate = {o.fps.num, o.fps.den};
  encoder->sample_aspect_ratio = {o.sample_aspect.num, o.sample_aspect.den};
  encoder->thread_count = std::max(1, o.threads);
  encoder->flags |= AV_CODEC_FLAG_BITEXACT | AV_CODEC_FLAG_GLOBAL_HEADER;
  if (o.key_interval > 0) encoder->gop_size = o.key_interval;
  encoder->colorspace = static_cast<AVColorSpace>(o.colour.matrix);
  encoder->color_primaries = static_cast<AVColorPrimaries>(o.colour.primaries);
  encoder->color_trc = static_cast<AVColorTransferCharacteristic>(o.colour.transfer);
  encoder->color_range = AVCOL_RANGE_MPEG;
  return encoder;
}

inline ff::Owned<AVCodecContext> open_x264(const EncoderOptions& o, int width, int height,
                                           AVRational time_base) {
  const AVCodec* codec = avcodec_find_encoder_by_name("libx264");
  if (codec == nullptr)
    throw MediaError(
        "encoding h264: this FFmpeg has no libx264; install an FFmpeg with it, as Debian's is, or set "
        "encoder "
        "to libopenh264, or to h264_nvenc, which needs an NVIDIA card");
  auto encoder = new_h264(*codec, o, width, height, time_base);
  check_h264(av_opt_set(encoder->priv_data, "preset", o.preset.c_str(), 0), "setting the preset");
  if (o.low_latency) {
    check_h264(av_opt_set(encoder->priv_data, "tune", "zerolatency", 0), "setting the tune");
    check_h264(av_opt_set_int(encoder->priv_data, "forced-idr", 1, 0), "setting forced key frames");
  }
  check_h264(av_opt_set_double(encoder->priv_data, "crf", o.crf, 0), "setting crf");
  if (const std::string params = x264_params(o); !params.empty())
    check_h264(av_opt_set(encoder->priv_data, "x264-params", params.c_str(), 0), "setting x264-params");
  check_h264(avcodec_open2(encoder.get(), codec, nullptr), "opening x264");
  return encoder;
}

// Opens NVIDIA's encoder at constant quality: crf is its cq, 0 is lossless as in x264, the preset its middle
// one. Null, with the reason in `why`, if FFmpeg lacks it or cannot open it: no driver, no card, or a card
// without an encoder such as the H100.
inline ff::Owned<AVCodecContext> open_nvenc(const EncoderOptions& o, int width, int height,
                                            AVRational time_base, std::string& why) {
  const AVCodec* codec = avcodec_find_encoder_by_name("h264_nvenc");
  why = "this FFmpeg has no h264_nvenc";
  if (codec == nullptr) return nullptr;
  auto encoder = new_h264(*codec, o, width, height, time_base);
  av_opt_set(encoder->priv_data, "preset", "p4", 0);
  if (o.crf == 0) {  // a cq of 0 would mean 2 Mbit/s
    check_h264(av_opt_set(encoder->priv_data, "tune", "lossless", 0), "setting lossless");
  } else {
    av_opt_set(encoder->priv_data, "rc", "vbr", 0);
    av_opt_set_double(encoder->priv_data, "cq", o.crf, 0);
  }
  const int code = avcodec_open2(encoder.get(), codec, nullptr);
  if (code >= 0) return encoder;
  why = "h264_nvenc cannot be opened (" + ff::error_text(code) + ")";
  return nullptr;
}

// Opens Cisco's encoder, which an FFmpeg under the LGPL can have, at one quantiser for all pictures: crf. It
// has no presets, and its files are larger.
inline ff::Owned<AVCodecContext> open_openh264(const EncoderOptions& o, int width, int height,
                                               AVRational time_base) {
  const AVCodec* codec = avcodec_find_encoder_by_name("libopenh264");
  if (codec == nullptr)
    throw MediaError(
        o.codec == "libopenh264"
            ? "encoding h264: this FFmpeg has no libopenh264; set encoder to libx264 or auto"
            : "encoding h264: this FFmpeg has neither libx264 nor libopenh264; install one that has");
  auto encoder = new_h264(*codec, o, width, height, time_base);
  encoder->qmin = encoder->qmax = std::max(1, o.crf);
  check_h264(av_opt_set(encoder->priv_data, "coder", "cabac", 0), "setting the entropy coder");
  check_h264(avcodec_open2(encoder.get(), codec, nullptr), "opening openh264");
  return encoder;
}

// Opens x264 if the options need features that only it has. MediaError if the encoder they name is
// unavailable.
inline ff::Owned<AVCodecContext> open_h264(const EncoderOptions& o, int width, int height,
                                           AVRational time_base) {
  const bool has_x264 = avcodec_find_encoder_by_name("libx264") != nullptr;
  if (o.codec == "libx264" || (o.codec.empty() && has_x264) || o.parameter_set != 0 || o.length_prefixed)
    return open_x264(o, width, height, time_base);
  if (o.codec == "libopenh264" || o.codec.empty()) return open_openh264(o, width, height, time_base);
  std::string why;
  if (auto encoder = open_nvenc(o, width, height, time_base, why)) return encoder;
  if (o.codec == "auto")
    return has_x264 ? open_x264(o, width, height, time_base) : open_openh264(o, width, height, time_base);
  throw MediaError("encoding h264: " + why +
                   "; it needs an NVIDIA driver and a card with an encoder. Set encoder to libx264 or auto");
}

}  // namespace kinora::video
