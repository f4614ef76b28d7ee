#include "media/image.hpp"

#include <cstring>
#include <string>

#include "media/byte_source.hpp"
#include "media/convert.hpp"
#include "media/ffmpeg.hpp"
#include "media/probe.hpp"

extern "C" {
#include <libavutil/crc.h>
}

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

namespace {

void check_webp(int code) {
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
  check_webp(av_opt_set_double(encoder->priv_data, "quality", quality, 0));
  check_webp(avcodec_open2(encoder.get(), codec, nullptr));
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
  check_webp(avcodec_send_frame(state_->encoder.get(), frame.get()));
}

// libwebp's animation encoder returns the whole file as a single packet.
std::vector<uint8_t> WebpWriter::finish() {
  check_webp(avcodec_send_frame(state_->encoder.get(), nullptr));
  const auto packet = ff::new_packet();
  check_webp(avcodec_receive_packet(state_->encoder.get(), packet.get()));
  return {packet->data, packet->data + packet->size};
}

namespace {

using Bytes = std::vector<uint8_t>;

void add(Bytes& to, std::string_view text) { to.insert(to.end(), text.begin(), text.end()); }
void add_little(Bytes& to, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<uint8_t>(v >> 8 * i));
}
void add_big(Bytes& to, uint32_t v) {
  for (int i = 3; i >= 0; --i) to.push_back(static_cast<uint8_t>(v >> 8 * i));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

std::string xmp_of(std::string_view text) {
  return R"(<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">)"
         R"(<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:description><rdf:Alt>)"
         R"(<rdf:li xml:lang="x-default">)" +
         escaped(text) + "</rdf:li></rdf:Alt></dc:description></rdf:Description></rdf:RDF></x:xmpmeta>";
}

}  // namespace

Bytes png_with_comment(Bytes png, std::string_view text) {
  constexpr size_t kHeader = 8 + 25;  // the signature and IHDR
  if (png.size() < kHeader) throw MediaError("the PNG is too short to hold a comment");
  Bytes chunk;
  add(chunk, "iTXt");
  add(chunk, std::string_view("Comment\0\0\0\0\0", 12));  // uncompressed, without a language
  add(chunk, text);
  Bytes whole;
  add_big(whole, static_cast<uint32_t>(chunk.size() - 4));
  whole.insert(whole.end(), chunk.begin(), chunk.end());
  add_big(whole, ~av_crc(av_crc_get_table(AV_CRC_32_IEEE_LE), ~0U, chunk.data(), chunk.size()));
  png.insert(png.begin() + kHeader, whole.begin(), whole.end());
  return png;
}

Bytes webp_with_comment(Bytes webp, std::string_view text, int width, int height) {
  constexpr size_t kRiff = 12, kFlags = kRiff + 8;
  constexpr uint8_t kHasXmp = 4;
  if (webp.size() < kFlags + 1) throw MediaError("the WebP is too short to hold a comment");
  if (std::memcmp(webp.data() + kRiff, "VP8X", 4) == 0) {
    webp[kFlags] |= kHasXmp;
  } else {
    Bytes extended;
    add(extended, "VP8X");
    add_little(extended, 10, 4);
    add_little(extended, kHasXmp, 4);
    add_little(extended, static_cast<uint64_t>(width - 1), 3);
    add_little(extended, static_cast<uint64_t>(height - 1), 3);
    webp.insert(webp.begin() + kRiff, extended.begin(), extended.end());
  }
  const std::string xmp = xmp_of(text);
  add(webp, "XMP ");
  add_little(webp, xmp.size(), 4);
  add(webp, xmp);
  if (xmp.size() % 2) webp.push_back(0);
  Bytes size;
  add_little(size, webp.size() - 8, 4);
  std::copy(size.begin(), size.end(), webp.begin() + 4);
  return webp;
}

}  // namespace kinora::video
