#include "score_source.hpp"

#include "ffmpeg.hpp"
#include "media_error.hpp"

extern "C" {
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
}

namespace kinora::video {
namespace {

bool full_range(const AVFrame& f) { return f.format == AV_PIX_FMT_YUVJ420P || f.color_range == AVCOL_RANGE_JPEG; }

YuvMatrix matrix(const AVFrame& f) {
  const int* k = sws_getCoefficients(f.colorspace);
  return {k[0], k[1], k[2], k[3], full_range(f)};
}

// libswscale's converter to BGR with the settings of OpenCV's reader: bicubic chroma, the frame's own chroma position,
// matrix and range, output of full range.
SwsContext* open_converter(const AVFrame& f, FrameSize to) {
  SwsContext* sws = sws_alloc_context();
  const auto set = [&](const char* name, int64_t value) { av_opt_set_int(sws, name, value, 0); };
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(f.format));
  int x = 128, y = 128;
  if (f.chroma_location) avcodec_enum_to_chroma_pos(&x, &y, f.chroma_location);
  set("srcw", f.width);
  set("srch", f.height);
  set("src_format", f.format);
  set("dstw", to.width);
  set("dsth", to.height);
  set("dst_format", AV_PIX_FMT_BGR24);
  set("sws_flags", SWS_BICUBIC);
  set("src_h_chr_pos", format && format->log2_chroma_w ? x * ((1 << format->log2_chroma_w) - 1) : -513);
  set("src_v_chr_pos", format && format->log2_chroma_h ? y * ((1 << format->log2_chroma_h) - 1) : -513);
  if (full_range(f)) set("src_range", 1);
  if (sws_init_context(sws, nullptr, nullptr) < 0) {
    sws_freeContext(sws);
    throw MediaError(std::string("pixel format ") + (format ? format->name : "?") + " cannot be converted to BGR; transcode the film first");
  }
  if (f.colorspace != AVCOL_SPC_RGB)
    sws_setColorspaceDetails(sws, sws_getCoefficients(f.colorspace), full_range(f), sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  return sws;
}

}  // namespace

ScoreSource::~ScoreSource() { sws_freeContext(convert_); }

double ScoreSource::push(const AVFrame& frame) {
  const bool planar = frame.format == AV_PIX_FMT_YUV420P || frame.format == AV_PIX_FMT_YUVJ420P;
  if (!planar || frame.height % 2 != 0 || FrameSize{frame.width, frame.height} != size_)
    return content_score(scorer_.push(whole(frame)), weights_);
  const Yuv420View view{frame.data[0], frame.data[1], frame.data[2], frame.linesize[0], frame.linesize[1], frame.linesize[2]};
  return content_score(scorer_.push(view, matrix(frame)), weights_);
}

// The whole frame in BGR and in the container's size.
BgrView ScoreSource::whole(const AVFrame& frame) {
  const int stride = (size_.width * 3 + 63) / 64 * 64 + 64;
  const FrameSize from{frame.width, frame.height};
  if (convert_format_ != frame.format || convert_from_ != from) {
    sws_freeContext(convert_);
    convert_ = open_converter(frame, size_);
    convert_format_ = frame.format;
    convert_from_ = from;
    bgr_.resize(static_cast<size_t>(stride) * static_cast<size_t>(size_.height));
  }
  uint8_t* const to[4] = {bgr_.data(), nullptr, nullptr, nullptr};
  const int strides[4] = {stride, 0, 0, 0};
  sws_scale(convert_, frame.data, frame.linesize, 0, frame.height, to, strides);
  return {bgr_.data(), stride};
}

}  // namespace kinora::video
