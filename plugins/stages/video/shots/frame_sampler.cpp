#include "shots/frame_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "media/ffmpeg.hpp"
#include "media/media_error.hpp"
#include "media/rotate.hpp"

namespace kinora::video {
namespace {

constexpr int kPaddedStride = 256;  // swscale writes whole vectors past the end of a row

ScalerOptions size_for(const VideoInfo& video, int64_t height) {
  ScalerOptions out;
  out.rotation = video.rotation;
  const bool turned = video.rotation % 180 != 0;
  const double wide = video.width * video.sample_aspect.value();
  const double h = turned ? wide : video.height, w = turned ? video.height : wide;
  out.height = std::max(1, static_cast<int>(height > 0 ? height : std::lround(h)));
  out.width = std::max(1, static_cast<int>(std::lround(w * out.height / h)));
  return out;
}

bool full_range(const AVFrame& f) { return f.format == AV_PIX_FMT_YUVJ420P || f.color_range == AVCOL_RANGE_JPEG; }

}  // namespace

FrameSampler::FrameSampler(const VideoInfo& video, double every, int64_t height)
    : times_(every, 0), size_(size_for(video, height)), scaler_(size_) {}

void FrameSampler::push(const AVFrame& frame, const Moment& now) {
  if (!times_.due(now.microseconds)) return;
  seconds_.push_back(static_cast<double>(now.microseconds) / 1e6);
  scaler_.bytes(frame, pixels_.append(static_cast<size_t>(size_.height) * static_cast<size_t>(size_.width) * 3));
}

std::vector<double> FrameSampler::give(Sample& to) {
  pixels_.give(to, "frames", {size_.height, size_.width, 3});
  return seconds_;
}

Thumbnailer::~Thumbnailer() { sws_freeContext(scale_); }

// Configures swscale as FFmpeg's scale filter does.
void Thumbnailer::prepare(const AVFrame& frame) {
  const int kind[5] = {frame.width, frame.height, frame.format, frame.colorspace, full_range(frame)};
  if (scale_ != nullptr && std::equal(kind, kind + 5, from_)) return;
  sws_freeContext(scale_);
  const bool turned = rotation_ % 180 != 0;
  scale_ = sws_alloc_context();
  const auto set = [&](const char* name, int64_t value) { av_opt_set_int(scale_, name, value, 0); };
  set("srcw", frame.width);
  set("srch", frame.height);
  set("src_format", frame.format);
  set("dstw", turned ? kHeight : kWidth);
  set("dsth", turned ? kWidth : kHeight);
  set("dst_format", AV_PIX_FMT_RGB24);
  set("sws_flags", SWS_BICUBIC);
  if (frame.format == AV_PIX_FMT_YUV420P) set("src_v_chr_pos", 128);
  set("src_range", full_range(frame));
  if (sws_init_context(scale_, nullptr, nullptr) < 0) {
    const char* name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(frame.format));
    throw MediaError(std::string("frames of format ") + (name != nullptr ? name : "?") +
                     " cannot be scaled to thumbnails; convert the video to yuv420p");
  }
  sws_setColorspaceDetails(scale_, sws_getCoefficients(frame.colorspace), full_range(frame),
                           sws_getCoefficients(frame.colorspace), 1, 0, 1 << 16, 1 << 16);
  std::copy(kind, kind + 5, from_);
}

void Thumbnailer::push(const AVFrame& frame) {
  prepare(frame);
  const bool turned = rotation_ % 180 != 0;
  const int width = turned ? kHeight : kWidth, height = turned ? kWidth : kHeight;
  padded_.resize(size_t{kPaddedStride} * static_cast<size_t>(height));
  uint8_t* const to[4] = {padded_.data(), nullptr, nullptr, nullptr};
  const int strides[4] = {kPaddedStride, 0, 0, 0};
  sws_scale(scale_, frame.data, frame.linesize, 0, frame.height, to, strides);
  uint8_t* const out = pixels_.append(size_t{kWidth} * kHeight * 3);
  rotate_plane({padded_.data(), kPaddedStride}, width, height, 3, rotation_, {out, ptrdiff_t{kWidth} * 3});
}

}  // namespace kinora::video
