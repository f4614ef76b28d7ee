#include "shots/flashes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "shots/transnetv2.hpp"

namespace kinora::video {
namespace {

constexpr int64_t kLongestFlash = 4, kKept = 2 * transnetv2::Sequence::kDelay;
constexpr double kBrighter = 16;        // of 255, of the means of two pictures
constexpr double kAlike = 24;           // of 255, largest difference within a shot, up to motion and light
constexpr double kMostLight = 2;        // times brighter or darker that one of them may be
constexpr double kShown = 0.4;          // smallest correlation of a flash with what it shows
constexpr int kDark = 5, kLight = 250;  // of 255; values at the ends show nothing
constexpr double kPlain = 4;            // of 255, standard deviation of a picture that shows nothing
constexpr int kMoved = 4;               // pixels that a block may have moved
constexpr int kRows = 3, kColumns = 6, kHigh = transnetv2::kHeight / kRows,
              kWide = transnetv2::kWidth / kColumns;

using Values = std::vector<uint8_t>;

int64_t row_difference(const uint8_t* a, const uint8_t* b, int count) {
  int64_t sum = 0;
  for (int i = 0; i < count; ++i) sum += std::abs(a[i] - b[i]);
  return sum;
}

// The difference of a block of `a` from the block of `b` that is (right, down) pixels away.
int64_t block_difference(const Values& a, const Values& b, int row, int column, int right, int down) {
  int64_t sum = 0;
  const auto at = [](const Values& picture, int y, int x) {
    return &picture[static_cast<size_t>((y * transnetv2::kWidth + x) * 3)];
  };
  for (int y = row * kHigh; y < (row + 1) * kHigh; ++y)
    sum += row_difference(at(a, y, column * kWide), at(b, y + down, column * kWide + right), kWide * 3);
  return sum;
}

// The mean difference of values, where each block may have moved within the picture.
double difference(const Values& a, const Values& b) {
  int64_t sum = 0;
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column) {
      int64_t least = std::numeric_limits<int64_t>::max();
      const int up = std::min(kMoved, row * kHigh), left = std::min(kMoved, column * kWide),
                down = std::min(kMoved, (kRows - 1 - row) * kHigh),
                right = std::min(kMoved, (kColumns - 1 - column) * kWide);
      for (int dy = -up; dy <= down; ++dy)
        for (int dx = -left; dx <= right; ++dx)
          least = std::min(least, block_difference(a, b, row, column, dx, dy));
      sum += least;
    }
  return static_cast<double>(sum) / static_cast<double>(transnetv2::kFrameBytes);
}

Values scaled(const Values& picture, double gain) {
  Values out(picture.size());
  std::transform(picture.begin(), picture.end(), out.begin(), [&](uint8_t value) {
    return static_cast<uint8_t>(std::min(255.0, std::round(gain * value)));
  });
  return out;
}

// The correlation of a flash's values that are neither black nor white with another picture's: 1 if they are
// plain or few.
double shown(const Values& flash, const Values& other) {
  double count = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < flash.size(); ++i) {
    if (flash[i] <= kDark || flash[i] >= kLight) continue;
    const double a = flash[i], b = other[i];
    ++count, x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
  }
  if (count * 10 < static_cast<double>(flash.size())) return 1;
  const double spread = xx / count - x / count * x / count, other_spread = yy / count - y / count * y / count;
  if (spread < kPlain * kPlain) return 1;
  return other_spread > 0 ? (xy / count - x / count * y / count) / std::sqrt(spread * other_spread) : 0;
}

}  // namespace

void Flashes::see(const uint8_t* picture) {
  Values values(picture, picture + transnetv2::kFrameBytes);
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  pictures_.push_back({std::move(values), mean});
  for (; static_cast<int64_t>(pictures_.size()) > kKept; ++first_) pictures_.pop_front();
}

std::optional<Flash> Flashes::at(int64_t frame) const {
  for (int64_t before = frame - kLongestFlash; before <= frame; ++before)
    for (int64_t after = std::max(frame + 1, before + 2); after <= before + kLongestFlash + 1; ++after)
      if (const auto flash = between(before, after)) return flash;
  return std::nullopt;
}

std::optional<Flash> Flashes::between(int64_t before, int64_t after) const {
  const Picture *a = picture(before), *b = picture(after);
  if (a == nullptr || b == nullptr) return std::nullopt;
  const auto [dark, light] = std::minmax(a->mean, b->mean);
  bool is_brighter = true, is_darker = true;
  for (int64_t frame = before + 1; frame < after; ++frame) {
    const double mean = picture(frame)->mean;
    is_brighter &= mean > light + kBrighter;
    is_darker &= mean < dark - kBrighter;
  }
  if (is_brighter == is_darker || is_fade(before, after, is_brighter ? 1 : -1)) return std::nullopt;
  const double as_before = shown(picture(before + 1)->values, a->values),
               as_after = shown(picture(after - 1)->values, b->values);
  if (std::max(as_before, as_after) < kShown) return std::nullopt;
  const double gain = std::clamp((a->mean + 1) / (b->mean + 1), 1 / kMostLight, kMostLight);
  return Flash{before + 1, after, difference(a->values, scaled(b->values, gain)) <= kAlike,
               as_before > as_after};
}

// Whether the light changes towards that of the frames between already before and still after the two.
bool Flashes::is_fade(int64_t before, int64_t after, double sign) const {
  const Picture *earlier = picture(before - 1), *later = picture(after + 1);
  return earlier != nullptr && later != nullptr &&
         sign * (picture(before)->mean - earlier->mean) > kBrighter / 2 &&
         sign * (picture(after)->mean - later->mean) > kBrighter / 2;
}

const Flashes::Picture* Flashes::picture(int64_t frame) const {
  const int64_t place = frame - first_;
  return place < 0 || place >= static_cast<int64_t>(pictures_.size())
             ? nullptr
             : &pictures_[static_cast<size_t>(place)];
}

}  // namespace kinora::video
