// The content score of two successive frames: the mean change of hue, saturation and value. A shot
// detector cuts where it jumps. The definition is PySceneDetect's ContentDetector on frames read by OpenCV:
// the decoder's YUV becomes BGR, BGR is scaled bilinearly to about 256 columns, then turned into HSV, and the
// sums of absolute differences of the three planes are exact integers.
//
// Idea: at 1280x720 a bilinear reduction to 256x144 reads 4 of every 25 pixels. So the fast path (frame_meter.hpp)
// converts only these, one destination row at a time, and never stores a full BGR frame.
//
// Invariant: the fast path has the bits of the functions in kinora::reference. Those in turn are the bits of
//   - libswscale's unscaled yuv420p -> bgr24 with its x86 SIMD code: even height, no SWS_ACCURATE_RND. Any
//     other pixel format, and an odd height, goes through libswscale first and enters here as BGR;
//   - OpenCV's resize(INTER_LINEAR) and cvtColor(BGR2HSV) of 8-bit images: fixed-point with 11-bit weights,
//     and a 12-bit reciprocal table.
// The fast path uses AVX2 where the processor has it (decided once, at run time) and plain C++ elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kinora {

struct FrameSize {
  int width = 0;
  int height = 0;
  friend bool operator==(const FrameSize&, const FrameSize&) = default;
};

// Borrowed planes of an 8-bit 4:2:0 frame; chroma is (width + 1) / 2 by (height + 1) / 2. Strides are in
// bytes and may be negative; nothing beyond a row's last sample is read.
struct Yuv420View {
  const uint8_t* y = nullptr;
  const uint8_t* u = nullptr;
  const uint8_t* v = nullptr;
  std::ptrdiff_t y_stride = 0;
  std::ptrdiff_t u_stride = 0;
  std::ptrdiff_t v_stride = 0;
};

// Borrowed rows of interleaved 8-bit B, G, R.
struct BgrView {
  const uint8_t* data = nullptr;
  std::ptrdiff_t stride = 0;
};

// YUV to RGB as libswscale states it: 16.16 fixed-point factors for limited-range chroma, in the order of
// sws_getCoefficients(), whose four integers may be passed as they are. `full_range` marks JPEG-range
// samples.
struct YuvMatrix {
  int32_t v_to_r = 0;
  int32_t u_to_b = 0;
  int32_t u_to_g = 0;
  int32_t v_to_g = 0;
  bool full_range = false;
};
inline constexpr YuvMatrix kBt601Limited = {104597, 132201, 25675, 53279, false};  // also for untagged video
inline constexpr YuvMatrix kBt709Limited = {117489, 138438, 13975, 34925, false};

// The two source positions that one scaled position reads, and their weights in 1/2048.
struct LinearTap {
  int32_t first = 0;
  int32_t second = 0;
  int16_t first_weight = 0;
  int16_t second_weight = 0;
};

// How vector code gathers the source samples of a block of sixteen columns: two lanes of eight columns, each
// filled by `windows` loads of sixteen bytes, shuffled and or-ed together. A lane then holds eight pairs of
// bytes, a column's first and second sample. Entry block * windows + w belongs to load w. No load reads
// outside the row.
struct GatherPlan {
  int windows = 0;
  std::vector<std::array<int32_t, 2>> offset;  // of each lane's load, in bytes from the row's start
  std::vector<std::array<uint8_t, 32>> shuffle;
};

// Data for one pair of sizes, computed once per video and constant afterwards; any thread may read it.
// Sizes are positive and neither side of `scaled` is larger than the source's.
struct ResizePlan {
  ResizePlan(FrameSize source, FrameSize scaled);

  FrameSize source;
  FrameSize scaled;
  std::vector<LinearTap> columns;
  std::vector<LinearTap> rows;
  // For vector code; empty if the source is too narrow for sixteen-byte loads, and plain code runs. The
  // weights are (first, second) pairs, padded with zeros to whole blocks and split into sixteenths and the
  // rest.
  std::vector<uint8_t> coarse_weights;
  std::vector<uint8_t> fine_weights;
  bool any_fine_weight = false;  // never for a landscape width that is a multiple of 4
  GatherPlan luma;
  GatherPlan chroma;
  std::array<GatherPlan, 3> bgr;
};

// PySceneDetect's default size: the longer side becomes 256, each side rounded half to even, at least 1. A
// frame whose sides are all below 256 keeps its size.
FrameSize content_score_size(FrameSize frame);
// Its size at a given downscale factor, 1 or more: sides divided, rounded half to even, at least 1.
FrameSize downscaled_size(FrameSize frame, double factor);

// Sums of absolute differences between two HSV frames, hue in 0..179 and not wrapped around; if edges are
// requested, also between their edge maps (255 per pixel that is an edge in only one of them).
struct HsvDifference {
  uint64_t hue = 0;
  uint64_t saturation = 0;
  uint64_t value = 0;
  int64_t pixels = 0;
  uint64_t edges = 0;
  friend bool operator==(const HsvDifference&, const HsvDifference&) = default;
};

struct ContentWeights {
  double hue = 1.0;
  double saturation = 1.0;
  double value = 1.0;
  double edges = 0.0;
};

// The weighted mean over planes of the mean absolute difference per pixel, in the order of operations of
// PySceneDetect's ContentDetector, so the double is the same to the last bit. 0 for no pixels.
double content_score(const HsvDifference& difference, const ContentWeights& weights = {});

// Plain code, as a readable definition and for tests; slow, and it stores whole frames.
namespace reference {
void yuv420_to_bgr(const Yuv420View& frame, FrameSize size, const YuvMatrix& matrix, uint8_t* bgr,
                   std::ptrdiff_t bgr_stride);
void resize_linear_bgr(BgrView source, FrameSize source_size, uint8_t* bgr, std::ptrdiff_t bgr_stride,
                       FrameSize size);
// hue, saturation, value: planes of size.width * size.height bytes, without padding.
void bgr_to_hsv(BgrView bgr, FrameSize size, uint8_t* hue, uint8_t* saturation, uint8_t* value);
HsvDifference content_difference(BgrView previous, BgrView current, FrameSize size);
}  // namespace reference

}  // namespace kinora
