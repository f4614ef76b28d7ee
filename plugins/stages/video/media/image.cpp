#include "media/image.hpp"

#include <string>

#include "media/convert.hpp"
#include "media/media_error.hpp"
#include "media/probe.hpp"

namespace kinora::video {
namespace {

constexpr int kLargestSide = Limits{}.max_side;
constexpr int kFullChromaQuality = 90;
constexpr int kCoarsest = 31;  // the range of MJPEG's quantiser scale is 1..31

void check(int code) {
  if (code < 0) {
    throw MediaError("encoding an image failed (" + ff::error_text(code) +
                     "); check its size and FFmpeg's encoders");
  }
}

// JFIF: BT.601 in full range.
ff::Owned<AVFrame> to_jfif(const AVFrame& rgb, AVPixelFormat format) {
  auto frame = allocate_picture(rgb.width, rgb.height, format);
  frame->colorspace = AVCOL_SPC_BT470BG;
  frame->color_range = AVCOL_RANGE_JPEG;
  PixelConverter().convert(rgb, *frame, Filter::automatic);
  return frame;
}

std::vector<uint8_t> encode(const char* encoder_name, AVFrame& frame, int quantiser) {
  const AVCodec* codec = avcodec_find_encoder_by_name(encoder_name);
  if (codec == nullptr)
    throw MediaError(std::string("this FFmpeg has no ") + encoder_name + " encoder; install a full one");
  auto encoder = ff::own(avcodec_alloc_context3(codec));
  encoder->width = frame.width;
  encoder->height = frame.height;
  encoder->pix_fmt = static_cast<AVPixelFormat>(frame.format);
  encoder->time_base = {1, 25};  // required, but without effect on a single image
  encoder->color_range = frame.color_range;
  encoder->colorspace = frame.colorspace;
  encoder->thread_count = 1;
  encoder->flags |= AV_CODEC_FLAG_BITEXACT;
  if (quantiser > 0) {
    encoder->flags |= AV_CODEC_FLAG_QSCALE;
    encoder->qmin = 1;
    encoder->global_quality = frame.quality = quantiser * FF_QP2LAMBDA;
  }
  check(avcodec_open2(encoder.get(), codec, nullptr));
  frame.pts = 0;
  check(avcodec_send_frame(encoder.get(), &frame));
  auto packet = ff::new_packet();
  check(avcodec_send_frame(encoder.get(), nullptr));
  check(avcodec_receive_packet(encoder.get(), packet.get()));
  return {packet->data, packet->data + packet->size};
}

}  // namespace

std::vector<uint8_t> encode_image(const uint8_t* rgb, int height, int width, std::string_view format,
                                  int quality) {
  ff::silence_library_log();
  if (height < 1 || width < 1 || height > kLargestSide || width > kLargestSide) {
    throw MediaError("encoding an image of " + std::to_string(width) + " x " + std::to_string(height) +
                     " pixels; give sides from 1 to " + std::to_string(kLargestSide));
  }
  auto picture = picture_of_rgb(rgb, width, height);
  if (format == "png") return encode("png", *picture, 0);
  if (format != "jpeg")
    throw MediaError("unknown image format '" + std::string(format) + "'; give png or jpeg");
  if (quality < 1 || quality > 100) {
    throw MediaError("jpeg quality " + std::to_string(quality) + "; give 1 to 100");
  }
  const int quantiser = 1 + (100 - quality) * (kCoarsest - 1) / 99;
  auto jfif = to_jfif(*picture, quality >= kFullChromaQuality ? AV_PIX_FMT_YUVJ444P : AV_PIX_FMT_YUVJ420P);
  return encode("mjpeg", *jfif, quantiser);
}

}  // namespace kinora::video
