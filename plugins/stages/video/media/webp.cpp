#include "media/webp.hpp"

#include <string>

#include "media/convert.hpp"
#include "media/media_error.hpp"

namespace kinora::video {
namespace {

void check(int code) {
  if (code < 0) throw MediaError("encoding a WebP failed (" + ff::error_text(code) + ")");
}

}  // namespace

struct WebpWriter::State {
  int width, height;
  ff::Owned<AVCodecContext> encoder;
  PixelConverter converter;
  int64_t next = 0;
};

WebpWriter::WebpWriter(int width, int height, Rational fps, int quality) : state_(nullptr) {
  ff::silence_library_log();
  constexpr int kMaxSide = 16383;  // the format's limit
  if (width < 1 || height < 1 || width > kMaxSide || height > kMaxSide)
    throw MediaError("a WebP of " + std::to_string(width) + " x " + std::to_string(height) +
                     " pixels; give sides from 1 to " + std::to_string(kMaxSide));
  const AVCodec* codec = avcodec_find_encoder_by_name("libwebp_anim");
  if (codec == nullptr) throw MediaError("this FFmpeg has no libwebp_anim encoder; install a full one");
  auto encoder = ff::own(avcodec_alloc_context3(codec));
  encoder->width = width;
  encoder->height = height;
  encoder->pix_fmt = AV_PIX_FMT_YUV420P;
  encoder->time_base = {fps.den, fps.num};
  encoder->thread_count = 1;
  encoder->flags |= AV_CODEC_FLAG_BITEXACT;
  check(av_opt_set_double(encoder->priv_data, "quality", quality, 0));
  check(avcodec_open2(encoder.get(), codec, nullptr));
  state_ = new State{width, height, std::move(encoder), {}};
}

WebpWriter::~WebpWriter() { delete state_; }

void WebpWriter::write_rgb(const uint8_t* rgb) {
  const auto picture = picture_of_rgb(rgb, state_->width, state_->height);
  auto frame = allocate_picture(state_->width, state_->height, AV_PIX_FMT_YUV420P);
  frame->colorspace = AVCOL_SPC_BT470BG;  // readers assume this matrix for WebP's VP8 frames
  frame->color_range = AVCOL_RANGE_MPEG;
  state_->converter.convert(*picture, *frame, Filter::automatic);
  frame->pts = state_->next++;
  check(avcodec_send_frame(state_->encoder.get(), frame.get()));
}

// libwebp's animation encoder returns the whole file as a single packet.
std::vector<uint8_t> WebpWriter::finish() {
  check(avcodec_send_frame(state_->encoder.get(), nullptr));
  const auto packet = ff::new_packet();
  check(avcodec_receive_packet(state_->encoder.get(), packet.get()));
  return {packet->data, packet->data + packet->size};
}

}  // namespace kinora::video
