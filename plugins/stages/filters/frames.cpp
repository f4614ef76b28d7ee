#include "frames.hpp"

#include <opencv2/imgproc.hpp>

namespace kinora::filters {
namespace {

// OpenCV counts rows, columns and the bytes of a row in ints.
constexpr int64_t kLongestSide = 32768;

const kinora_dl_tensor& tensor_of(const Sample& sample) {
  if (const auto* tensor = sample.tensor("frames")) return *tensor;
  throw Error(KINORA_NOT_FOUND, "sample '" + std::string(sample.key()) +
                                    "' has no tensor frames; set sample_fps of clip.transcode (sample_every of a "
                                    "shots stage for whole films), or put stage/video.read before this stage");
}

}  // namespace

Frames::Frames(const Sample& sample) {
  const kinora_dl_tensor& t = tensor_of(sample);
  const std::string key(sample.key());
  if (t.code != KINORA_DL_UINT || t.bits != 8 || t.lanes != 1 || t.device_type != KINORA_DL_CPU || t.ndim != 4 ||
      t.strides || t.shape[3] != 3)
    throw Error(KINORA_DATA, key + ": the tensor frames must be row-major uint8 [T, H, W, 3] in main memory");
  if (t.shape[0] < 1 || t.shape[1] < 1 || t.shape[2] < 1 || !t.data)
    throw Error(KINORA_DATA, key + ": the tensor frames holds no picture; look at what the stage before made of it");
  if (t.shape[1] > kLongestSide || t.shape[2] > kLongestSide)
    throw Error(KINORA_DATA, key + ": frames of " + std::to_string(t.shape[2]) + "x" + std::to_string(t.shape[1]) +
                                 " pixels are larger than the filters take (" + std::to_string(kLongestSide) +
                                 "); set sample_height, or height of stage/video.read");
  data_ = static_cast<const uint8_t*>(t.data) + t.byte_offset;
  count_ = t.shape[0];
  height_ = static_cast<int>(t.shape[1]);
  width_ = static_cast<int>(t.shape[2]);
}

cv::Mat Frames::rgb(int64_t i) const {
  const uint8_t* at = data_ + static_cast<size_t>(i) * static_cast<size_t>(height_) * static_cast<size_t>(width_) * 3;
  return {height_, width_, CV_8UC3, const_cast<uint8_t*>(at)};
}

cv::Mat Frames::luma(int64_t i) const {
  cv::Mat out;
  cv::cvtColor(rgb(i), out, cv::COLOR_RGB2GRAY);
  return out;
}

}  // namespace kinora::filters
