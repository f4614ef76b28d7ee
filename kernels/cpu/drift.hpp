// How a video leaves its beginning, second by second, without a network: mean and spread of the channels,
// histogram of colours, sharpness, saturation, and the jump at borders of chunks. Pixels count in [0, 1].
//
// Idea: a frame becomes a row of numbers and a second the mean of its rows, so that no frames are kept.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kinora::drift {

constexpr size_t kBins = 8;  // of a channel's histogram, of equal width

// Of a frame, or their mean over a second.
struct Row {
  std::array<double, 3> mean{};    // of each channel
  std::array<double, 3> spread{};  // of a frame the variance of each channel, of a second the deviation
  double saturation = 0;           // mean of the largest minus the smallest channel
  double sharpness = 0;            // mean absolute Laplacian of the luma (Rec. 601); 0 without inner pixels
  double change = 0;               // mean absolute difference from the frame before
  std::array<double, kBins * kBins * kBins> colours{};  // shares of the pixels
};

// A second against the mean of the first ones.
struct Second {
  double mean = 0;         // absolute change of a channel's mean, over the channels
  double spread = 0;       // the same of its standard deviation
  double histogram = 0;    // half the summed difference of the shares of 512 colours, 0 to 1
  double sharpness = 0;    // its rise; below 0: blurred
  double saturation = 0;   // of the second itself
  double border_jump = 0;  // mean change from frame to frame at borders of chunks, minus that elsewhere
};
struct Column {
  const char* name;
  double Second::*value;
};
constexpr Column kColumns[] = {{"mean", &Second::mean},
                               {"spread", &Second::spread},
                               {"histogram", &Second::histogram},
                               {"sharpness", &Second::sharpness},
                               {"saturation", &Second::saturation},
                               {"border_jump", &Second::border_jump}};

inline double unit(uint8_t pixel) { return pixel / 255.0; }
inline double unit(double pixel) { return pixel; }

template <class Pixel>
double sharpness_of(const Pixel* rgb, int64_t rows, int64_t columns) {
  if (rows < 3 || columns < 3) return 0;
  const auto luma = [&](int64_t at) {
    return 0.299 * unit(rgb[3 * at]) + 0.587 * unit(rgb[3 * at + 1]) + 0.114 * unit(rgb[3 * at + 2]);
  };
  std::vector<double> lumas(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows * columns; ++i) lumas[static_cast<size_t>(i)] = luma(i);
  double sum = 0;
  for (int64_t y = 1; y + 1 < rows; ++y)
    for (int64_t x = 1; x + 1 < columns; ++x) {
      const double* at = &lumas[static_cast<size_t>(y * columns + x)];
      sum += std::abs(4 * at[0] - at[-columns] - at[columns] - at[-1] - at[1]);
    }
  return sum / static_cast<double>((rows - 2) * (columns - 2));
}

// Pixel: uint8_t, or double in [0, 1], finite. rgb, before: [rows, columns, 3]; null before the first frame.
template <class Pixel>
Row row_of(const Pixel* rgb, const Pixel* before, int64_t rows, int64_t columns) {
  Row out;
  const int64_t pixels = rows * columns;
  const auto n = static_cast<double>(pixels);
  for (int64_t i = 0; i < pixels; ++i) {
    const std::array<double, 3> p{unit(rgb[3 * i]), unit(rgb[3 * i + 1]), unit(rgb[3 * i + 2])};
    size_t colour = 0;
    for (size_t c = 0; c < 3; ++c) {
      out.mean[c] += p[c];
      colour = colour * kBins + static_cast<size_t>(std::clamp(p[c] * kBins, 0.0, kBins - 1.0));
      if (before) out.change += std::abs(p[c] - unit(before[3 * i + static_cast<int64_t>(c)]));
    }
    out.saturation += std::max({p[0], p[1], p[2]}) - std::min({p[0], p[1], p[2]});
    out.colours[colour] += 1;
  }
  for (double& m : out.mean) m /= n;
  for (int64_t i = 0; i < pixels; ++i)
    for (size_t c = 0; c < 3; ++c) {
      const double apart = unit(rgb[3 * i + static_cast<int64_t>(c)]) - out.mean[c];
      out.spread[c] += apart * apart;
    }
  for (double& variance : out.spread) variance /= n;
  out.saturation /= n;
  out.change /= 3 * n;
  for (double& share : out.colours) share /= n;
  out.sharpness = sharpness_of(rgb, rows, columns);
  return out;
}

// Changes from frame to frame, at borders of chunks and elsewhere.
struct Changes {
  double border = 0, other = 0;
  int64_t borders = 0, others = 0;
  void add(bool is_border, double change) {
    (is_border ? border : other) += change;
    ++(is_border ? borders : others);
  }
  // 0 if there are none of either.
  double jump() const {
    if (borders == 0 || others == 0) return 0;
    return border / static_cast<double>(borders) - other / static_cast<double>(others);
  }
};

// The rows of a video, frame by frame; it keeps 4 KB a second.
class Video {
 public:
  // chunk: frames; 0: no borders. first_chunk: frames of the first one; 0: as the others.
  Video(double fps, int64_t chunk, int64_t first_chunk)
      : fps_(fps), chunk_(chunk), first_(first_chunk > 0 ? first_chunk : chunk) {}

  // is_cut: another shot begins, so that the change is meant and counts neither as a border's nor as another one.
  void add(const Row& frame, bool is_cut = false) {
    const bool is_border = chunk_ > 0 && frames_ >= first_ && (frames_ - first_) % chunk_ == 0;
    if (frames_ > 0 && chunk_ > 0 && !is_cut) {
      all_.add(is_border, frame.change);
      now_.add(is_border, frame.change);
    }
    part_.push_back(frame);
    ++frames_;
    if (frames_ >= begin_of(rows_.size() + 1)) end_second();
  }

  // Whole seconds, up to half a frame: a rate that was measured from rounded times loses none.
  int64_t seconds() const { return static_cast<int64_t>(rows_.size()); }
  // The first frame of a second: the nearest one.
  int64_t begin_of(size_t second) const {
    return static_cast<int64_t>(std::ceil(static_cast<double>(second) * fps_ - 0.5));
  }
  double border_jump() const { return all_.jump(); }
  // Of each whole second; none if there is none behind the first `reference` ones.
  std::vector<Second> table(int64_t reference) const;

 private:
  void end_second();

  const double fps_;
  const int64_t chunk_, first_;
  int64_t frames_ = 0;
  std::vector<Row> part_;  // frames of the second that is not whole
  std::vector<Row> rows_;  // whole seconds
  Changes all_, now_;
  std::vector<double> jumps_;
};

// The sum of the rows, each divided by n.
inline Row mean_of(const Row* rows, int64_t n) {
  Row out;
  const auto add = [&](double& to, double x) { to += x / static_cast<double>(n); };
  for (const Row* row = rows; row < rows + n; ++row) {
    for (size_t c = 0; c < 3; ++c) add(out.mean[c], row->mean[c]), add(out.spread[c], row->spread[c]);
    for (size_t i = 0; i < out.colours.size(); ++i) add(out.colours[i], row->colours[i]);
    add(out.saturation, row->saturation);
    add(out.sharpness, row->sharpness);
  }
  return out;
}

// The variance over a second is that within its frames plus that of their means.
inline void Video::end_second() {
  Row row = mean_of(part_.data(), static_cast<int64_t>(part_.size()));
  for (size_t c = 0; c < 3; ++c) {
    for (const Row& frame : part_) {
      const double apart = frame.mean[c] - row.mean[c];
      row.spread[c] += apart * apart / static_cast<double>(part_.size());
    }
    row.spread[c] = std::sqrt(row.spread[c]);
  }
  rows_.push_back(row);
  jumps_.push_back(now_.jump());
  now_ = {};
  part_.clear();
}

inline std::vector<Second> Video::table(int64_t reference) const {
  std::vector<Second> out;
  if (seconds() <= reference) return out;
  const Row first = mean_of(rows_.data(), reference);
  for (size_t k = 0; k < rows_.size(); ++k) {
    const Row& row = rows_[k];
    Second& s = out.emplace_back();
    for (size_t c = 0; c < 3; ++c) {
      s.mean += std::abs(row.mean[c] - first.mean[c]) / 3;
      s.spread += std::abs(row.spread[c] - first.spread[c]) / 3;
    }
    for (size_t i = 0; i < row.colours.size(); ++i)
      s.histogram += 0.5 * std::abs(row.colours[i] - first.colours[i]);
    s.sharpness = row.sharpness - first.sharpness;
    s.saturation = row.saturation;
    s.border_jump = jumps_[k];
  }
  return out;
}

}  // namespace kinora::drift
