// Decoders on a device, whose pictures are copied into memory.
#pragma once
#include <string>

#include "media/ffmpeg.hpp"

namespace kinora::video {

struct Limits;

// A device that decodes in place of the CPU. Its pictures are those of FFmpeg's decoder on the CPU, to the
// bit, as long as the video is intact.
//
// [any-thread]
class HardwareDecoder {
 public:
  virtual ~HardwareDecoder() = default;
  virtual std::string name() const = 0;
  // Opens a decoder for the stream. Null, with the reason in `why`, if there is no such device or it lacks
  // the codec; what it finds out later, such as a profile that it lacks, is an error of the first packet.
  virtual ff::Owned<AVCodecContext> open(const AVStream& stream, const Limits& limits,
                                         std::string& why) const = 0;
  // Replaces the device's picture by its copy in memory, in the pixel format, size and with the properties
  // that the CPU's decoder would give it. Returns 0 or a negative FFmpeg code.
  virtual int download(const AVCodecContext& decoder, AVFrame& picture) const = 0;
};

// The decoder of NVIDIA's cards, by FFmpeg's hwaccel "cuda": H.264, HEVC, VP9 and AV1 in 4:2:0 with 8, 10 or
// 12 bits. These are the codecs whose standards fix every bit of a picture. The card is the first that CUDA
// shows to this process (CUDA_VISIBLE_DEVICES); it is opened on first use and stays open.
const HardwareDecoder& nvdec();

// Why nvdec() cannot be used on this machine; empty if it can. Checked once, by opening and closing the card.
// [any-thread]
const std::string& why_no_nvdec();

// Returns the picture with its interleaved chroma (NV12, P010, P016) taken apart, value for value, in the
// planar `format` of 8, 10 or 12 bits (yuv420p, yuv420p10, ...). The frame's properties are not copied.
ff::Owned<AVFrame> planes_apart(const AVFrame& picture, AVPixelFormat format);

}  // namespace kinora::video
