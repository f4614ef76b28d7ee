#pragma once

// For tests of hardware decoders: every property of a video's frames, and a card that this machine need not
// have.

#include <functional>
#include <string_view>

#include "media/convert.hpp"
#include "media/hardware_decoder.hpp"
#include "media/input.hpp"
#include "media/media_testing.hpp"

namespace kinora::video::testing {

// A delivered frame; equal frames have equal pictures in all planes.
struct Delivered {
  int64_t index, pts, duration;
  bool key, damaged;
  int width, height, format;
  size_t picture;  // hash of the planes

  explicit Delivered(const Frame& frame)
      : index(frame.index),
        pts(frame.pts),
        duration(frame.duration),
        key(frame.key),
        damaged(frame.damaged),
        width(frame.picture->width),
        height(frame.picture->height),
        format(frame.picture->format) {
    const Bytes all = planes(*frame.picture);
    picture = std::hash<std::string_view>{}({reinterpret_cast<const char*>(all.data()), all.size()});
  }
  friend bool operator==(const Delivered&, const Delivered&) = default;
};

// A whole video, and what the decoder said of it.
struct Report {
  std::vector<Delivered> frames;
  std::string damage;
  std::vector<std::string> fallbacks;
};

inline Report report(ByteSource& source, DecoderOptions options = {}) {
  Report out;
  options.on_fallback = [&](const std::string& why) { out.fallbacks.push_back(why); };
  Decoder decoder(source, "a.mp4", options);
  while (const Frame* frame = decoder.next()) out.frames.emplace_back(*frame);
  out.damage = decoder.damaged();
  return out;
}

// FFmpeg's decoder on the CPU behind the interface of a card: each picture in 4:2:0 goes through a card's
// format, NV12 or P016, and back. The card can refuse every video, or fail at one picture.
struct PretendedCard final : HardwareDecoder {
  std::string refusal;    // not empty: open() refuses with it
  int64_t fails_at = -1;  // number of the download since the card was made that fails, and all after it
  mutable int64_t pictures = 0;  // downloads that succeeded

  std::string name() const override { return "PRETENDED"; }

  ff::Owned<AVCodecContext> open(const AVStream& stream, const Limits& limits,
                                 std::string& why) const override {
    why = refusal;
    return why.empty() ? open_decoder(stream, "film", 1, limits) : nullptr;
  }

  int download(const AVCodecContext& decoder, AVFrame& picture) const override {
    if (pictures == fails_at) return AVERROR_EXTERNAL;
    ++pictures;
    const AVPixFmtDescriptor* form = av_pix_fmt_desc_get(decoder.pix_fmt);
    if (form->log2_chroma_w != 1 || form->log2_chroma_h != 1) return 0;
    auto back = planes_apart(*woven(picture), decoder.pix_fmt);
    const int code = av_frame_copy_props(back.get(), &picture);
    av_frame_unref(&picture);
    av_frame_move_ref(&picture, back.get());
    return code;
  }

 private:
  // The picture with interleaved chroma and, above 8 bits, its values in the upper bits of 16.
  static ff::Owned<AVFrame> woven(const AVFrame& from) {
    const int depth = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(from.format))->comp[0].depth;
    auto out = allocate_picture(from.width, from.height, depth == 8 ? AV_PIX_FMT_NV12 : AV_PIX_FMT_P016);
    for (int plane = 0; plane < 3; ++plane) {
      const int to = plane == 0 ? 0 : 1, step = plane == 0 ? 1 : 2, first = plane == 2 ? 1 : 0;
      const int width = plane == 0 ? from.width : (from.width + 1) / 2;
      const int height = plane == 0 ? from.height : (from.height + 1) / 2;
      for (int y = 0; y < height; ++y) {
        const uint8_t* row = from.data[plane] + ptrdiff_t{from.linesize[plane]} * y;
        uint8_t* target = out->data[to] + ptrdiff_t{out->linesize[to]} * y;
        for (int x = 0; x < width; ++x) {
          if (depth == 8)
            target[x * step + first] = row[x];
          else
            reinterpret_cast<uint16_t*>(target)[x * step + first] =
                static_cast<uint16_t>(reinterpret_cast<const uint16_t*>(row)[x] << (16 - depth));
        }
      }
    }
    return out;
  }
};

}  // namespace kinora::video::testing
