// The correlation of two successive luma histograms: PySceneDetect's HistogramDetector, which is OpenCV's
// calcHist over [0, 256), normalize (to length 1) and compareHist (HISTCMP_CORREL).
//
// Invariant: counts and lengths are exact, and the sums of the correlation run in the order of OpenCV's x86
// code (two lanes of doubles), so the result has its bits there; elsewhere it agrees to 1e-12.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace kinora {

class LumaHistogram {
 public:
  // bins: 2 to 256.
  explicit LumaHistogram(int bins);

  void add(const uint8_t* luma, int n);

  // Returns the histogram of all added samples, of length 1, and restarts the counts.
  std::vector<float> take();

 private:
  int bins_;
  // Four tables, so that equal successive values do not wait for each other.
  std::array<std::array<uint32_t, 256>, 4> counts_{};
};

// -1 to 1; 1 if either histogram is flat. Both have the same size.
double correlation(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace kinora
