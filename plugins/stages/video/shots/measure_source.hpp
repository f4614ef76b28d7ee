// Measures decoded frames for the detectors, as if OpenCV's reader had given them to PySceneDetect (upright, in BGR),
// without producing most of those frames.
#pragma once
#include <optional>
#include <vector>

#include "media/ffmpeg.hpp"
#include "kernels/cpu/frame_meter.hpp"

namespace kinora::video {

// The size that PySceneDetect measures at: downscale 0 is its automatic rule, 1 keeps the frames' size.
FrameSize measured_size(FrameSize upright, int64_t downscale);

// [owner-thread] Measures one video, frames in order.
class MeasureSource {
 public:
  // size: the container's, before rotation (degrees clockwise). Frames of another size are scaled to it, as in OpenCV's
  // reader.
  MeasureSource(FrameSize size, int rotation, int64_t downscale, const MeterOptions& needs);
  ~MeasureSource();
  MeasureSource(const MeasureSource&) = delete;
  MeasureSource& operator=(const MeasureSource&) = delete;

  // Measures the frame against the previous one. Keeps a reference to the frame until the next call.
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
  ff::Owned<AVFrame> last_;      // the previous frame, if it was measured by its planes
  ff::Owned<AVFrame> turned_[2];  // this frame and the previous one, upright
  size_t turn_ = 0;
};

}  // namespace kinora::video
