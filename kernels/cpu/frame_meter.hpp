// The measurements of the shot detectors, all from one pass over a frame's rows: a row is converted and
// scaled once, and each requested measurement reads it while it is in the cache.
//
// Definitions: content_score.hpp (hsv), edge_map.hpp, luma_histogram.hpp, frame_hash.hpp; the mean is that of
// all B, G and R. They are PySceneDetect's on the frames that OpenCV would read, to the bit (see there for
// the two exceptions).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cpu/content_score.hpp"
#include "kernels/cpu/frame_hash.hpp"
#include "kernels/cpu/luma_histogram.hpp"

namespace kinora {

struct MeterOptions {
  bool hsv = true;
  bool edges = false;   // into hsv.edges; needs hsv
  int edge_kernel = 0;  // pixels, odd; 0: edge_kernel_size() of the scaled frame
  int bins = 0;         // bins of the histogram; 0: no histogram
  int hash_size = 0;    // bits per side; 0: no hash
  int hash_lowpass = 2;
  bool mean = false;
};

// All but the mean compare a frame with the previous one. The first frame has no difference.
struct FrameMeasures {
  HsvDifference hsv;
  double correlation = 1.0;  // of the two histograms
  double hash_distance = 0.0;
  double mean = 0.0;  // 0 to 255
};

// Measures one video, whose frames come in order. Keeps the needed data of the last frame. One instance
// serves one thread at a time.
class FrameMeter {
 public:
  FrameMeter(FrameSize source, FrameSize scaled, const MeterOptions& options);

  // before: the frame that was pushed last, under the same matrix and unchanged, or null. If only hsv of
  // unscaled frames is requested, spans that are equal in both are then skipped, since their difference is 0.
  FrameMeasures push(const Yuv420View& frame, const YuvMatrix& matrix, const Yuv420View* before = nullptr);
  FrameMeasures push(BgrView frame);

  const ResizePlan& plan() const { return plan_; }

 private:
  template <typename Row>
  FrameMeasures push_rows(const Row& row);
  void push_changes(const Yuv420View& frame, const YuvMatrix& matrix, const Yuv420View& before,
                    HsvDifference& sum);
  void measure(int y, uint8_t* const bgr[3], FrameMeasures& out);
  void add_edges(HsvDifference& sum);
  void finish(FrameMeasures& out);

  ResizePlan plan_;
  MeterOptions options_;
  bool unscaled_;
  bool started_ = false;
  uint64_t channel_sum_ = 0;
  std::vector<uint8_t> scratch_;   // rows: b, g, r, hue, saturation, value, grey
  std::vector<uint8_t> previous_;  // three planes: hue, saturation, value
  std::vector<uint8_t> edges_;
  std::optional<LumaHistogram> histogram_;
  std::vector<float> last_histogram_;
  std::optional<FrameHash> hash_;
  std::vector<uint8_t> last_hash_;
};

}  // namespace kinora
