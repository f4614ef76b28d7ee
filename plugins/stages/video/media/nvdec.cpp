#include <algorithm>
#include <array>
#include <utility>

#include "media/convert.hpp"
#include "media/hardware_decoder.hpp"
#include "media/probe.hpp"

extern "C" {
#include <libavutil/hwcontext.h>
}

namespace kinora::video {
namespace {

constexpr std::array kExact = {AV_CODEC_ID_H264, AV_CODEC_ID_HEVC, AV_CODEC_ID_VP9, AV_CODEC_ID_AV1};
constexpr std::array kFormats = {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUV420P10,
                                 AV_PIX_FMT_YUV420P12};

int bits(int format) { return av_pix_fmt_desc_get(static_cast<AVPixelFormat>(format))->comp[0].depth; }

struct Card {
  AVBufferRef* context = nullptr;
  std::string why;  // there is none

  Card() {
    ff::silence_library_log();
    const int code = av_hwdevice_ctx_create(&context, AV_HWDEVICE_TYPE_CUDA, nullptr, nullptr, 0);
    if (code < 0)
      why = "NVDEC needs an NVIDIA card, its driver and an FFmpeg with CUDA, and no card can be opened (" +
            ff::error_text(code) + ")";
  }
};

// Never closed: decoders may outlive every static object, and CUDA cannot be closed while a process ends.
const Card& card() {
  static const Card opened;
  return opened;
}

// FFmpeg's own decoder of the codec that hands its slices to CUDA; not those that are NVIDIA's parser too
// (h264_cuvid), which report other timestamps and no damage. Null if there is none.
const AVCodec* decoder_with_cuda(AVCodecID id) {
  void* at = nullptr;
  while (const AVCodec* codec = av_codec_iterate(&at)) {
    if (codec->id != id || !av_codec_is_decoder(codec)) continue;
    for (int i = 0; const AVCodecHWConfig* way = avcodec_get_hw_config(codec, i); ++i)
      if (way->pix_fmt == AV_PIX_FMT_CUDA && (way->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX) != 0 &&
          (way->methods & AV_CODEC_HW_CONFIG_METHOD_INTERNAL) == 0)
        return codec;
  }
  return nullptr;
}

// AVCodecContext::get_format: CUDA, if it is offered for a format of kFormats, else none. So FFmpeg reports
// an error where it would otherwise decode on the CPU by itself: it asks again without CUDA when the card
// refuses. VP9 that changes its size predicts from pictures of another size, which FFmpeg does not give to
// the card, so its second choice is an error.
AVPixelFormat choose_cuda(AVCodecContext* decoder, const AVPixelFormat* offered) {
  const AVPixelFormat* end = offered;
  while (*end != AV_PIX_FMT_NONE) ++end;
  const bool usable = std::find(offered, end, AV_PIX_FMT_CUDA) != end &&
                      std::find(kFormats.begin(), kFormats.end(), decoder->sw_pix_fmt) != kFormats.end();
  if (!usable || (decoder->codec_id == AV_CODEC_ID_VP9 && decoder->opaque != nullptr)) return AV_PIX_FMT_NONE;
  decoder->opaque = decoder;
  return AV_PIX_FMT_CUDA;
}

class Nvdec final : public HardwareDecoder {
 public:
  std::string name() const override { return "NVDEC"; }

  ff::Owned<AVCodecContext> open(const AVStream& stream, const Limits& limits,
                                 std::string& why) const override {
    why = card().why;
    if (!why.empty()) return nullptr;
    const AVCodecID id = stream.codecpar->codec_id;
    const AVCodec* codec =
        std::find(kExact.begin(), kExact.end(), id) == kExact.end() ? nullptr : decoder_with_cuda(id);
    why =
        "NVDEC decodes H.264, HEVC, VP9 and AV1 here, and this video is " + std::string(avcodec_get_name(id));
    if (codec == nullptr) return nullptr;
    auto decoder = ff::own(avcodec_alloc_context3(codec));
    int code = avcodec_parameters_to_context(decoder.get(), stream.codecpar);
    if (code >= 0) {
      decoder->pkt_timebase = stream.time_base;
      decoder->thread_count = 1;
      decoder->max_pixels = limits.max_pixels;
      decoder->hw_device_ctx = av_buffer_ref(card().context);
      if (decoder->hw_device_ctx == nullptr) throw std::bad_alloc();
      decoder->get_format = choose_cuda;
      code = avcodec_open2(decoder.get(), codec, nullptr);
    }
    why = "NVDEC rejects the stream (" + ff::error_text(code) + ")";
    return code >= 0 ? std::move(decoder) : nullptr;
  }

  int download(const AVCodecContext& decoder, AVFrame& picture) const override {
    auto copy = ff::new_frame();
    int code = av_hwframe_transfer_data(copy.get(), &picture, 0);
    if (code < 0) return code;
    // A picture from before a change of the format, which P010 and P016 (of 12 bits here) differ in.
    if (std::min(bits(copy->format), 12) != bits(decoder.sw_pix_fmt)) return AVERROR_EXTERNAL;
    auto apart = planes_apart(*copy, decoder.sw_pix_fmt);
    code = av_frame_copy_props(apart.get(), &picture);
    if (code >= 0) code = av_frame_apply_cropping(apart.get(), 0);  // the left and upper edge, as on the CPU
    if (code < 0) return code;
    av_frame_unref(&picture);
    av_frame_move_ref(&picture, apart.get());
    return 0;
  }
};

// The card stores 10 and 12 bits in the upper part of 16: `shift` is the rest.
template <class T>
void take_apart(const AVFrame& from, AVFrame& to, int shift) {
  const auto row = [](const AVFrame& f, int plane, int y) {
    return reinterpret_cast<T*>(f.data[plane] + ptrdiff_t{f.linesize[plane]} * y);
  };
  for (int y = 0; y < to.height; ++y)
    std::transform(row(from, 0, y), row(from, 0, y) + to.width, row(to, 0, y),
                   [shift](T v) { return static_cast<T>(v >> shift); });
  const int width = (to.width + 1) / 2, height = (to.height + 1) / 2;
  for (int y = 0; y < height; ++y) {
    const T* both = row(from, 1, y);
    T* blue = row(to, 1, y);
    T* red = row(to, 2, y);
    for (int x = 0; x < width; ++x) {
      blue[x] = static_cast<T>(both[2 * x] >> shift);
      red[x] = static_cast<T>(both[2 * x + 1] >> shift);
    }
  }
}

}  // namespace

const HardwareDecoder& nvdec() {
  static const Nvdec decoder;
  return decoder;
}

const std::string& why_no_nvdec() {
  static const std::string why = [] {
    Card tried;
    av_buffer_unref(&tried.context);
    return tried.why;
  }();
  return why;
}

ff::Owned<AVFrame> planes_apart(const AVFrame& picture, AVPixelFormat format) {
  auto out = allocate_picture(picture.width, picture.height, format);
  const int depth = bits(format);
  if (depth == 8)
    take_apart<uint8_t>(picture, *out, 0);
  else
    take_apart<uint16_t>(picture, *out, 16 - depth);
  return out;
}

}  // namespace kinora::video
