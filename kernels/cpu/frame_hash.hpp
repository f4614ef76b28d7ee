// The perceptual hash of a frame: PySceneDetect's HashDetector. The grey frame is averaged down to a square,
// divided by its largest value and transformed (DCT-II, orthonormal). Each bit says whether one of the low
// frequencies is above their median.
//
// The average is OpenCV's resize(INTER_AREA) of 8-bit images to the bit: whole factors add integers, others
// add float32 in row order; a side that grows is interpolated. The transform runs in double and by symmetric
// halves, so a frequency that is exactly 0 for a symmetric picture is 0 here too; OpenCV's runs in float32. A
// bit can differ from OpenCV's only where two frequencies around the median agree to 1e-6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/content_score.hpp"

namespace kinora {

// One output of an average: `weight` of the source sample `source` goes to `target`.
struct AreaTap {
  int32_t target = 0;
  int32_t source = 0;
  float weight = 0;
};

// DCT-II of n numbers, orthonormal.
class Dct {
 public:
  explicit Dct(size_t n);
  // The first `count` numbers of the transform of x [n].
  void operator()(const double* x, size_t count, double* out) const;

 private:
  size_t n_;
  std::vector<double> cosines_;
};

class FrameHash {
 public:
  // size: bits per side, at least 2; lowpass: the square is size * lowpass pixels wide, an even number.
  FrameHash(FrameSize source, int size, int lowpass);

  // Adds row `y` of the grey frame; rows in order, each once.
  void add(int y, const uint8_t* grey);

  // size * size bits of the frame whose rows were added, row by row; the next row then begins a new frame.
  std::vector<uint8_t> take();

  // The square of the frame whose rows were added, as take() would use it.
  std::vector<uint8_t> square() const;

 private:
  void add_area(int y, const uint8_t* grey);
  void add_whole(int y, const uint8_t* grey);

  FrameSize source_;
  int size_, side_;
  bool area_;  // both sides shrink
  Dct dct_;
  bool whole_;  // by whole factors
  std::vector<AreaTap> columns_, rows_;
  size_t next_row_ = 0;
  std::vector<float> row_, sums_;     // area
  std::vector<uint32_t> whole_sums_;  // whole factors
  std::vector<uint8_t> plane_;        // a side grows: the frame itself
};

// The share of bits that differ. Both hashes have the same size.
double hash_distance(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b);

}  // namespace kinora
