#include "aligned.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <faiss/utils/distances.h>

#include "kinora/error.hpp"

namespace kinora::dedup {
namespace {

constexpr double kShareInCommon = 0.6;  // of the shorter clip
constexpr double kOffsetStep = 0.25;    // frames
constexpr double kHopeless = 0.4;       // correlation that no closer search makes one of copies
constexpr double kRounding = 1e-6;      // of a correlation

float product(const float* a, const float* b) { return std::inner_product(a, a + kCells, b, 0.0F); }

void remove_mean(float* frame) {
  const float mean = std::accumulate(frame, frame + kCells, 0.0F) / static_cast<float>(kCells);
  for (size_t cell = 0; cell < kCells; ++cell) frame[cell] -= mean;
}

// Removes from each frame the multiple of the mean frame that is in it: 1 where nothing moves, less in a fade.
void remove_layout(std::vector<float>& frames, size_t count) {
  std::array<float, kCells> layout{};
  for (size_t i = 0; i < count * kCells; ++i) layout[i % kCells] += frames[i] / static_cast<float>(count);
  const float square = product(layout.data(), layout.data());
  for (size_t i = 0; square > 0 && i < count; ++i) {
    float* frame = &frames[i * kCells];
    const float gain = product(frame, layout.data()) / square;
    for (size_t cell = 0; cell < kCells; ++cell) frame[cell] -= gain * layout[cell];
  }
}

// The sum of the squares that the first principal component of the frames has, by power iteration; a little less
// where the second has nearly as much.
double strongest_layout(const std::vector<float>& frames, const float* start) {
  std::array<float, kCells> layout{};
  std::copy_n(start, kCells, layout.begin());
  double size = 0;
  for (int iteration = 0; iteration < 12; ++iteration) {
    std::array<float, kCells> next{};
    for (size_t i = 0; i < frames.size(); i += kCells) {
      const float gain = product(&frames[i], layout.data());
      for (size_t cell = 0; cell < kCells; ++cell) next[cell] += gain * frames[i + cell];
    }
    size = std::sqrt(static_cast<double>(product(next.data(), next.data())));
    if (size <= 0) return 0;
    for (size_t cell = 0; cell < kCells; ++cell) layout[cell] = next[cell] / static_cast<float>(size);
  }
  return size;
}

// The motion of two clips, laid out to try many alignments.
class Pair {
 public:
  Pair(const Signature& a, const Signature& b)
      : a_(a), b_(b), columns_(b.frames() + 1), products_(a.frames() * columns_) {
    for (size_t i = 0; i < a.frames(); ++i)
      faiss::fvec_inner_products_ny(&products_[i * columns_], &a.motion[i * kCells], b.motion.data(), kCells,
                                    b.frames());
    const auto shorter = static_cast<double>(std::min(a.frames(), b.frames()));
    least_ = std::max(static_cast<int>(kFewestFrames), static_cast<int>(std::ceil(kShareInCommon * shorter)));
  }

  // Replaces `best` by a better alignment of this speed. step: of the offset, in frames; around: offsets to
  // try, as many frames to either side of `middle`.
  void search(double speed, double step, double middle, double around, Aligned& best) const {
    const double first = std::max(middle - around, speed * (least_ - static_cast<double>(a_.frames())));
    const double last =
        std::min(middle + around, static_cast<double>(b_.frames() - 1) - (least_ - 1) * speed);
    for (double offset = std::ceil(first / step) * step; offset <= last; offset += step)
      if (const double correlation = correlation_at(speed, offset);
          correlation > best.correlation + kRounding)
        best = {correlation, speed, offset / kSignatureRate};
  }

 private:
  // The correlation where frame i of a is frame speed i + offset of b.
  double correlation_at(double speed, double offset) const {
    const int first = std::max(0, static_cast<int>(std::ceil(-offset / speed))),
              end = std::min(static_cast<int>(a_.frames()),
                             static_cast<int>((static_cast<double>(b_.frames() - 1) - offset) / speed) + 1);
    if (end - first < least_) return -1;
    float ab = 0, aa = 0, bb = 0;
    for (int i = first; i < end; ++i) {
      const auto at = static_cast<float>(speed * i + offset);
      const int j = static_cast<int>(at);
      const float after = at - static_cast<float>(j), before = 1 - after;
      const float* row = &products_[static_cast<size_t>(i) * columns_ + static_cast<size_t>(j)];
      const float* square = &b_.square[static_cast<size_t>(j)];
      ab += before * row[0] + after * row[1];
      aa += a_.square[static_cast<size_t>(i)];
      bb += before * (before * square[0] + 2 * after * b_.next[static_cast<size_t>(j)]) +
            after * after * square[1];
    }
    return aa > 0 && bb > 0 ? static_cast<double>(ab) / std::sqrt(static_cast<double>(aa) * bb) : -1;
  }

  const Signature &a_, &b_;
  size_t columns_;               // one more than b has frames, so that each has a next one
  std::vector<float> products_;  // [frames of a, columns_], a column of zeros at the end
  int least_;                    // frames in common
};

}  // namespace

Signature signature_of(std::string_view bytes, const std::string& origin) {
  if (bytes.empty() || bytes.size() % kCells != 0)
    throw Error(KINORA_ERROR_DATA, origin + ": expected frames of " + std::to_string(kCells) +
                                       " bytes, got " + std::to_string(bytes.size()) +
                                       " bytes; make it again with clip.signature");
  const size_t frames = std::min(bytes.size() / kCells, kSignatureFrames);
  Signature out;
  for (size_t i = 0; i < frames * kCells; ++i)
    out.motion.push_back(static_cast<float>(static_cast<uint8_t>(bytes[i])));
  for (size_t i = 0; i < frames; ++i) remove_mean(&out.motion[i * kCells]);
  remove_layout(out.motion, frames);
  for (size_t i = 0; i < frames; ++i) {
    const float* frame = &out.motion[i * kCells];
    out.square.push_back(product(frame, frame));
    out.next.push_back(i + 1 < frames ? product(frame, frame + kCells) : 0.0F);
  }
  out.square.push_back(0);
  const double sum = std::accumulate(out.square.begin(), out.square.end(), 0.0);
  out.change = std::sqrt(sum / static_cast<double>(frames * kCells));
  const auto largest = std::max_element(out.square.begin(), out.square.end() - 1) - out.square.begin();
  const double strongest = strongest_layout(out.motion, &out.motion[static_cast<size_t>(largest) * kCells]);
  out.beyond_light = sum > 0 ? std::sqrt(std::max(0.0, 1 - strongest / sum)) : 0;
  return out;
}

// Tries every start, at speeds two steps apart, then the neighbourhood of the best. From the speed 1 outwards:
// of equal ones the simplest is the best.
Aligned align(const Signature& a, const Signature& b) {
  Aligned best;
  if (!a.can_be_compared() || !b.can_be_compared()) return best;
  const Pair pair(a, b);
  const double all = static_cast<double>(a.frames() + b.frames());
  const int steps = static_cast<int>(std::lround((kFastest - 1) / kSpeedStep));
  for (int step = 0; step <= steps; step += 2)
    for (const double speed : {1 + step * kSpeedStep, 1 / (1 + step * kSpeedStep)})
      pair.search(speed, 1, 0, all, best);
  const Aligned coarse = best;
  if (coarse.correlation < kHopeless) return best;
  for (const double factor : {1.0, 1 + kSpeedStep, 1 / (1 + kSpeedStep)})
    pair.search(coarse.speed * factor, kOffsetStep, coarse.offset_s * kSignatureRate, 1, best);
  return best;
}

}  // namespace kinora::dedup
