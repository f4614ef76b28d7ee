#include "shots/thumbnailer.hpp"

#include <algorithm>
#include <string>

#include "media/byte_source.hpp"
#include "media/convert.hpp"
#include "shots/shot_finder.hpp"

extern "C" {
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
}

namespace kinora::video {
namespace {

constexpr int kPaddedStride = 256;  // swscale writes whole vectors past the end of a row

}  // namespace

Thumbnailer::~Thumbnailer() { sws_freeContext(scale_); }

// Configures swscale as FFmpeg's scale filter does.
void Thumbnailer::prepare(const AVFrame& frame) {
  const int kind[5] = {frame.width, frame.height, frame.format, frame.colorspace, is_full_range(frame)};
  if (scale_ != nullptr && std::equal(kind, kind + 5, from_)) return;
  sws_freeContext(scale_);
  const bool turned = rotation_.swaps_sides();
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
  set("src_range", is_full_range(frame));
  if (sws_init_context(scale_, nullptr, nullptr) < 0) {
    const char* name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(frame.format));
    throw MediaError(std::string("frames of format ") + (name != nullptr ? name : "?") +
                     " cannot be scaled to thumbnails; convert the video to yuv420p");
  }
  sws_setColorspaceDetails(scale_, sws_getCoefficients(frame.colorspace), is_full_range(frame),
                           sws_getCoefficients(frame.colorspace), 1, 0, 1 << 16, 1 << 16);
  std::copy(kind, kind + 5, from_);
}

void Thumbnailer::scale(const AVFrame& frame, uint8_t* rgb) {
  prepare(frame);
  const bool turned = rotation_.swaps_sides();
  const int width = turned ? kHeight : kWidth, height = turned ? kWidth : kHeight;
  padded_.resize(size_t{kPaddedStride} * static_cast<size_t>(height));
  uint8_t* const to[4] = {padded_.data(), nullptr, nullptr, nullptr};
  const int strides[4] = {kPaddedStride, 0, 0, 0};
  sws_scale(scale_, frame.data, frame.linesize, 0, frame.height, to, strides);
  rotate_plane({padded_.data(), kPaddedStride}, width, height, 3, rotation_, {rgb, ptrdiff_t{kWidth} * 3});
}

}  // namespace kinora::video
