#include "kernels/cpu/frame_hash.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/content_score_rows.hpp"

namespace kinora {
namespace {

using content_score_detail::clamp_to_byte;

// OpenCV's table of overlaps; parts smaller than a thousandth of a pixel are omitted.
std::vector<AreaTap> area_taps(int source, int target) {
  constexpr double kLeast = 1e-3;
  const double scale = 1.0 / (static_cast<double>(target) / source);
  std::vector<AreaTap> taps;
  for (int i = 0; i < target; ++i) {
    const double begin = i * scale, end = begin + scale;
    const double width = std::min(scale, source - begin);
    const int last = std::min(static_cast<int>(std::floor(end)), source - 1);
    const int first = std::min(static_cast<int>(std::ceil(begin)), last);
    if (first - begin > kLeast) taps.push_back({i, first - 1, static_cast<float>((first - begin) / width)});
    for (int k = first; k < last; ++k) taps.push_back({i, k, static_cast<float>(1.0 / width)});
    if (end - last > kLeast)
      taps.push_back({i, last, static_cast<float>(std::min(std::min(end - last, 1.0), width) / width)});
  }
  return taps;
}

// Where INTER_AREA enlarges: bilinear between the samples whose areas a target pixel crosses.
std::vector<LinearTap> growing_taps(int source, int target) {
  const double inverse = static_cast<double>(target) / source, scale = 1.0 / inverse;
  std::vector<LinearTap> taps;
  for (int i = 0; i < target; ++i) {
    int first = static_cast<int>(std::floor(i * scale));
    auto part = static_cast<float>((i + 1) - (first + 1) * inverse);
    part = part <= 0 ? 0.0F : part - std::floor(part);
    if (first >= source - 1) first = source - 1, part = 0;
    taps.push_back({first, std::min(first + 1, source - 1),
                    static_cast<int16_t>(std::lrint((1.0F - part) * 2048.0F)),
                    static_cast<int16_t>(std::lrint(part * 2048.0F))});
  }
  return taps;
}

bool whole_factor(int source, int target) { return source % target == 0; }

// Without the norm. Sums and differences of mirrored samples come first, so symmetric input gives exact
// zeros. cosines: cos(2 pi i / size) of the outermost length n, size 4 n; `step` of them make one of this
// length.
void transform(const std::vector<double>& cosines, size_t step, const double* x, size_t n, double* out,
               size_t stride, size_t count) {
  const auto cosine = [&](size_t i) { return cosines[i * step % cosines.size()]; };
  if (n % 2 != 0) {
    for (size_t k = 0; k < count; ++k) {
      out[k * stride] = 0;
      for (size_t i = 0; i < n; ++i) out[k * stride] += x[i] * cosine((2 * i + 1) * k);
    }
    return;
  }
  const size_t half = n / 2;
  std::vector<double> sums(half), differences(half);
  for (size_t i = 0; i < half; ++i) {
    sums[i] = x[i] + x[n - 1 - i];
    differences[i] = x[i] - x[n - 1 - i];
  }
  transform(cosines, 2 * step, sums.data(), half, out, 2 * stride, (count + 1) / 2);
  for (size_t k = 1; k < count; k += 2) {
    double sum = 0;
    for (size_t i = 0; i < half; ++i) sum += differences[i] * cosine((2 * i + 1) * k);
    out[k * stride] = sum;
  }
}

// The `count` x `count` lowest frequencies of a square of `side`, in float32.
std::vector<float> low_frequencies(const Dct& dct, const std::vector<double>& square, size_t side,
                                   size_t count) {
  std::vector<double> line(count), rows(side * count);
  for (size_t y = 0; y < side; ++y) {
    dct(&square[y * side], count, line.data());
    for (size_t k = 0; k < count; ++k) rows[k * side + y] = line[k];
  }
  std::vector<float> out(count * count);
  for (size_t x = 0; x < count; ++x) {
    dct(&rows[x * side], count, line.data());
    for (size_t k = 0; k < count; ++k) out[k * count + x] = static_cast<float>(line[k]);
  }
  return out;
}

float median(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace

Dct::Dct(size_t n) : n_(n) {
  for (size_t i = 0; i < 4 * n; ++i)
    cosines_.push_back(std::cos(std::numbers::pi * static_cast<double>(i) / static_cast<double>(2 * n)));
}

void Dct::operator()(const double* x, size_t count, double* out) const {
  transform(cosines_, 1, x, n_, out, 1, count);
  for (size_t k = 0; k < count; ++k) out[k] *= std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n_));
}

FrameHash::FrameHash(FrameSize source, int size, int lowpass)
    : source_(source),
      size_(size),
      side_(size * lowpass),
      area_(source.width >= side_ && source.height >= side_),
      dct_(static_cast<size_t>(side_)),
      whole_(area_ && whole_factor(source.width, side_) && whole_factor(source.height, side_)) {
  const auto side = static_cast<size_t>(side_);
  if (whole_) {
    whole_sums_.resize(side * side);
  } else if (area_) {
    columns_ = area_taps(source.width, side_);
    rows_ = area_taps(source.height, side_);
    row_.resize(side);
    sums_.resize(side * side);
  } else {
    plane_.resize(static_cast<size_t>(source.width) * static_cast<size_t>(source.height));
  }
}

void FrameHash::add(int y, const uint8_t* grey) {
  if (whole_) {
    add_whole(y, grey);
  } else if (area_) {
    add_area(y, grey);
  } else {
    std::copy_n(grey, source_.width, plane_.begin() + ptrdiff_t{y} * source_.width);
  }
}

void FrameHash::add_whole(int y, const uint8_t* grey) {
  const int across = source_.width / side_;
  uint32_t* sums = whole_sums_.data() + ptrdiff_t{side_} * (y / (source_.height / side_));
  for (int x = 0; x < side_; ++x)
    for (int k = 0; k < across; ++k) sums[x] += grey[x * across + k];
}

void FrameHash::add_area(int y, const uint8_t* grey) {
  if (next_row_ == rows_.size() || rows_[next_row_].source != y) return;
  std::fill(row_.begin(), row_.end(), 0.0F);
  for (size_t i = 0; i < columns_.size();) {
    const int32_t target = columns_[i].target;
    float sum = 0;
    for (; i < columns_.size() && columns_[i].target == target; ++i)
      sum += static_cast<float>(grey[columns_[i].source]) * columns_[i].weight;
    row_[static_cast<size_t>(target)] = sum;
  }
  for (; next_row_ < rows_.size() && rows_[next_row_].source == y; ++next_row_) {
    float* sums = sums_.data() + ptrdiff_t{side_} * rows_[next_row_].target;
    for (size_t x = 0; x < row_.size(); ++x) sums[x] += rows_[next_row_].weight * row_[x];
  }
}

std::vector<uint8_t> FrameHash::square() const {
  const auto side = static_cast<size_t>(side_);
  std::vector<uint8_t> out(side * side);
  const auto rounded = [](float value) { return clamp_to_byte(static_cast<int>(std::lrint(value))); };
  if (whole_) {
    const int area = source_.width / side_ * (source_.height / side_);
    const float scale = 1.0F / static_cast<float>(area);
    // If both factors are 2, OpenCV rounds half up instead of to even.
    const bool quarters = source_.width == 2 * side_ && source_.height == 2 * side_;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = quarters ? static_cast<uint8_t>((whole_sums_[i] + 2) >> 2)
                        : rounded(static_cast<float>(whole_sums_[i]) * scale);
  } else if (area_) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = rounded(sums_[i]);
  } else {
    const auto columns = growing_taps(source_.width, side_), rows = growing_taps(source_.height, side_);
    for (size_t y = 0; y < side; ++y) {
      const uint8_t* const top = plane_.data() + ptrdiff_t{source_.width} * rows[y].first;
      const uint8_t* const bottom = plane_.data() + ptrdiff_t{source_.width} * rows[y].second;
      for (size_t x = 0; x < side; ++x) {
        const LinearTap& c = columns[x];
        out[y * side + x] = content_score_detail::vertical(
            rows[y], content_score_detail::horizontal(c, top[c.first], top[c.second]),
            content_score_detail::horizontal(c, bottom[c.first], bottom[c.second]));
      }
    }
  }
  return out;
}

std::vector<uint8_t> FrameHash::take() {
  const std::vector<uint8_t> pixels = square();
  std::fill(whole_sums_.begin(), whole_sums_.end(), 0U);
  std::fill(sums_.begin(), sums_.end(), 0.0F);
  next_row_ = 0;
  const auto largest = static_cast<float>(std::max<int>(1, *std::max_element(pixels.begin(), pixels.end())));
  std::vector<double> square;
  for (const uint8_t pixel : pixels)
    square.push_back(static_cast<double>(static_cast<float>(pixel) / largest));
  const auto frequencies =
      low_frequencies(dct_, square, static_cast<size_t>(side_), static_cast<size_t>(size_));
  const float middle = median(frequencies);
  std::vector<uint8_t> bits;
  for (const float frequency : frequencies) bits.push_back(frequency > middle ? 1 : 0);
  return bits;
}

double hash_distance(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  size_t differ = 0;
  for (size_t i = 0; i < a.size(); ++i) differ += a[i] != b[i];
  return static_cast<double>(differ) / static_cast<double>(a.size());
}

}  // namespace kinora
