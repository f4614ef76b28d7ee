// What the detectors measure of decoded frames: the frames as OpenCV's reader gives them to PySceneDetect (upright, in
// BGR), without making most of them.
#pragma once
#include <optional>
#include <vector>

#include "media/ffmpeg.hpp"
#include "kernels/cpu/frame_meter.hpp"

namespace kinora::video {

// The size that PySceneDetect looks at: downscale 0 is its automatic rule, 1 leaves frames as they are.
FrameSize measured_size(FrameSize upright, int64_t downscale);

// [owner-thread] One video; its frames in order.
class MeasureSource {
 public:
  // size: the container's, before the rotation (degrees clockwise). Frames of another size are scaled to it, as
  // OpenCV's reader does.
  MeasureSource(FrameSize size, int rotation, int64_t downscale, const MeterOptions& needs);
  ~MeasureSource();
  MeasureSource(const MeasureSource&) = delete;
  MeasureSource& operator=(const MeasureSource&) = delete;

  // Of the frame against the one before. Keeps a reference to the frame until the next call.
  FrameMeasures push(const AVFrame& frame);

 private:
  FrameMeasures push_planes(const AVFrame& frame);
  BgrView whole(const AVFrame& frame);
  const AVFrame& turned(const AVFrame& frame);

  FrameSize size_;
  int rotation_;
  FrameMeter meter_;
  SwsContext* convert_ = nullptr;
  int convert_format_ = -1;
  FrameSize convert_from_;
  std::vector<uint8_t> bgr_, upright_bgr_;
  ff::Owned<AVFrame> last_;      // the frame before, if it was measured by its planes
  ff::Owned<AVFrame> turned_[2];  // this one and the one before, upright
  size_t turn_ = 0;
};

}  // namespace kinora::video
