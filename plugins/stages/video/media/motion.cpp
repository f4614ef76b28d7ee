#include "media/motion.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "media/byte_source.hpp"
#include "media/frame_queue.hpp"

extern "C" {
#include <libavutil/motion_vector.h>
}

namespace kinora::video {
namespace {

constexpr double kDefaultSeconds = 30, kDefaultRate = 30;
constexpr int64_t kFewestFrames = 10;
constexpr int kPatch = 256;  // pixels

double half_even(double v) { return std::nearbyint(v); }

bool gives_vectors(AVCodecID codec) {
  constexpr std::array kCodecs = {AV_CODEC_ID_H264,       AV_CODEC_ID_MPEG4,     AV_CODEC_ID_MPEG1VIDEO,
                                  AV_CODEC_ID_MPEG2VIDEO, AV_CODEC_ID_H263,      AV_CODEC_ID_H263P,
                                  AV_CODEC_ID_FLV1,       AV_CODEC_ID_WMV1,      AV_CODEC_ID_WMV2,
                                  AV_CODEC_ID_MSMPEG4V1,  AV_CODEC_ID_MSMPEG4V2, AV_CODEC_ID_MSMPEG4V3};
  return std::find(kCodecs.begin(), kCodecs.end(), codec) != kCodecs.end();
}

struct Schedule {
  int64_t step, most;
};

Schedule schedule(const Input& input, const MotionOptions& o) {
  const AVStream& stream = *input.video();
  const double average = av_q2d(stream.avg_frame_rate.den ? stream.avg_frame_rate : AVRational{0, 1});
  const double base = av_q2d(stream.r_frame_rate.den ? stream.r_frame_rate : AVRational{0, 1});
  const double rate = average > 0 ? average : base > 0 ? base : kDefaultRate;
  double seconds =
      std::floor(static_cast<double>(std::max<int64_t>(0, input.format()->duration)) / AV_TIME_BASE);
  if (seconds <= 0) seconds = kDefaultSeconds;
  return {std::max<int64_t>(1, static_cast<int64_t>(half_even(rate / o.fps))),
          std::max(kFewestFrames, static_cast<int64_t>(half_even(o.fps * seconds * o.duration)))};
}

// Sampling positions of the patches along a side of `pixels`, as in OpenCV's bilinear resize by 1 / 256:
// halfway between the two middle pixels of each patch; on a shorter side, at its middle.
struct Tap {
  int low, high;
  double weight;  // of high
};
std::vector<Tap> taps(int pixels) {
  const auto count = static_cast<int>(half_even(static_cast<double>(pixels) / kPatch));
  std::vector<Tap> out;
  for (int i = 0; i < std::max(1, count); ++i) {
    const double at = pixels < kPatch ? (pixels - 1) / 2.0 : (i + 0.5) * kPatch - 0.5;
    const int low = std::min(static_cast<int>(at), pixels - 1);
    out.push_back({low, std::min(low + 1, pixels - 1), at - std::floor(at)});
  }
  return out;
}

}  // namespace

MotionField::MotionField(int width, int height)
    : width_(width),
      height_(height),
      lengths_(static_cast<size_t>(width) * static_cast<size_t>(height)),
      sums_(lengths_.size()) {}

void MotionField::paint(const AVMotionVector& v) {
  const float scale = v.motion_scale != 0 ? static_cast<float>(v.motion_scale) : 1.0F;
  const float x = static_cast<float>(v.motion_x) / scale, y = static_cast<float>(v.motion_y) / scale;
  const float length = std::sqrt(x * x + y * y) / static_cast<float>(width_ + height_);
  const auto column = [&](int at) { return std::clamp(v.dst_x - v.w / 2 + at, 0, width_ - 1); };
  const int left = column(0), right = column(v.w - 1);
  for (int row = 0; row < v.h; ++row) {
    const int y_at = std::clamp(v.dst_y - v.h / 2 + row, 0, height_ - 1);
    float* line = lengths_.data() + static_cast<size_t>(y_at) * static_cast<size_t>(width_);
    std::fill(line + left, line + right + 1, length);
  }
}

void MotionField::add(const AVMotionVector* vectors, size_t count) {
  std::fill(lengths_.begin(), lengths_.end(), 0.0F);
  constexpr std::array<std::array<int, 2>, 4> kBlocks = {{{8, 8}, {16, 16}, {16, 8}, {8, 16}}};  // w, h
  for (const auto& [w, h] : kBlocks)
    for (size_t i = 0; i < count; ++i)
      if (vectors[i].w == w && vectors[i].h == h) paint(vectors[i]);
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += lengths_[i];
  ++frames_;
}

double MotionField::patch_min() const {
  double least = HUGE_VAL;
  const auto at = [&](int y, int x) {
    return sums_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
  };
  for (const Tap& y : taps(height_)) {
    for (const Tap& x : taps(width_)) {
      const auto across = [&](int row) {
        return at(row, x.low) * (1 - x.weight) + at(row, x.high) * x.weight;
      };
      least = std::min(least, across(y.low) * (1 - y.weight) + across(y.high) * y.weight);
    }
  }
  return least / static_cast<double>(frames_);
}

Motion MotionField::result() const {
  if (frames_ == 0) return {};
  double sum = 0;
  for (const double s : sums_) sum += s;
  return {sum / static_cast<double>(frames_) / static_cast<double>(sums_.size()), patch_min(), frames_};
}

Motion measure_motion(ByteSource& video, const std::string& name, const MotionOptions& options,
                      const std::function<void()>& check) {
  DecoderOptions decoding;
  decoding.threads = options.threads;
  decoding.motion_vectors = true;
  FrameQueue queue(video, name, decoding);
  if (queue.input().video() == nullptr) throw MediaError(name + ": no video stream; give a file with video");
  const AVCodecID codec = queue.input().video()->codecpar->codec_id;
  if (!gives_vectors(codec))
    throw MediaError(
        name + ": " + avcodec_get_name(codec) +
        " gives no motion vectors; convert it to H.264 with clip.transcode first, or use filter.flow");
  const Schedule plan = schedule(queue.input(), options);
  std::unique_ptr<MotionField> field;
  int width = 0, height = 0;
  int64_t found = 0;
  for (int64_t i = 0; found < plan.most && queue.pull(); ++i) {
    if (check) check();
    if (i % plan.step != 0) continue;
    const AVFrame& picture = queue.picture();
    if (!field) field = std::make_unique<MotionField>(width = picture.width, height = picture.height);
    const AVFrameSideData* side = av_frame_get_side_data(&picture, AV_FRAME_DATA_MOTION_VECTORS);
    if (side == nullptr || picture.width != width || picture.height != height) continue;
    field->add(reinterpret_cast<const AVMotionVector*>(side->data), side->size / sizeof(AVMotionVector));
    ++found;
  }
  if (!field) throw MediaError(name + ": no frame could be decoded; " + queue.problem());
  return field->result();
}

}  // namespace kinora::video
