#include "aligned.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kinora/error.hpp"

namespace kinora::dedup {
namespace {

constexpr double kShareInCommon = 0.6;  // of the shorter clip
constexpr double kOffsetStep = 0.5;     // frames
constexpr double kRounding = 1e-6;      // of a correlation

float product(const float* a, const float* b) { return std::inner_product(a, a + kCells, b, 0.0F); }

// Products of all frames of a with all frames of b: [frames of a, frames of b + 1], the last column 0.
std::vector<float> products_of(const Signature& a, const Signature& b) {
  const size_t columns = b.frames() + 1;
  std::vector<float> out(a.frames() * columns, 0.0F);
  for (size_t i = 0; i < a.frames(); ++i)
    for (size_t j = 0; j < b.frames(); ++j)
      out[i * columns + j] = product(&a.motion[i * kCells], &b.motion[j * kCells]);
  return out;
}

// The correlation where frame i of a is frame speed i + offset of b.
double correlation_at(const Signature& a, const Signature& b, const std::vector<float>& products,
                      double speed, double offset, size_t least) {
  const double last = static_cast<double>(b.frames() - 1);
  const auto first = static_cast<size_t>(std::max(0.0, std::ceil(-offset / speed)));
  double ab = 0, aa = 0, bb = 0;
  size_t count = 0;
  for (size_t i = first; i < a.frames(); ++i, ++count) {
    const double at = std::max(0.0, speed * static_cast<double>(i) + offset);
    if (at > last) break;
    const auto j = static_cast<size_t>(at);
    const double after = at - static_cast<double>(j), before = 1 - after;
    const float* row = &products[i * (b.frames() + 1) + j];
    ab += before * row[0] + after * row[1];
    aa += a.square[i];
    bb += before * before * b.square[j] + 2 * before * after * b.next[j] +
          (after > 0 ? after * after * b.square[j + 1] : 0);
  }
  return count >= least && aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : -1;
}

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
  const auto remove_mean = [&](size_t first, size_t step, size_t count) {
    float mean = 0;
    for (size_t n = 0; n < count; ++n) mean += out.motion[first + n * step] / static_cast<float>(count);
    for (size_t n = 0; n < count; ++n) out.motion[first + n * step] -= mean;
  };
  for (size_t i = 0; i < frames; ++i) remove_mean(i * kCells, 1, kCells);
  for (size_t cell = 0; cell < kCells; ++cell) remove_mean(cell, kCells, frames);
  for (size_t i = 0; i < frames; ++i) {
    const float* frame = &out.motion[i * kCells];
    out.square.push_back(product(frame, frame));
    out.next.push_back(i + 1 < frames ? product(frame, frame + kCells) : 0.0F);
  }
  const double sum = std::accumulate(out.square.begin(), out.square.end(), 0.0);
  out.change = std::sqrt(sum / static_cast<double>(frames * kCells));
  return out;
}

Aligned align(const Signature& a, const Signature& b) {
  Aligned best;
  const auto shorter = static_cast<double>(std::min(a.frames(), b.frames()));
  const auto least = std::max(kFewestFrames, static_cast<size_t>(std::ceil(kShareInCommon * shorter)));
  if (shorter < static_cast<double>(least)) return best;
  const auto products = products_of(a, b);
  const int steps = static_cast<int>(std::lround((kFastest - 1) / kSpeedStep));
  for (int n = 0; n <= 2 * steps; ++n) {  // from the speed 1 outwards: of equal ones the simplest is the best
    const double factor = 1 + (n + 1) / 2 * kSpeedStep, speed = n % 2 == 0 ? factor : 1 / factor;
    const double end = static_cast<double>(b.frames() - 1) - static_cast<double>(least - 1) * speed;
    const double steps_back = std::ceil(speed * static_cast<double>(a.frames() - least) / kOffsetStep);
    for (double offset = -steps_back * kOffsetStep; offset <= end; offset += kOffsetStep)
      if (const double correlation = correlation_at(a, b, products, speed, offset, least);
          correlation > best.correlation + kRounding)
        best = {correlation, speed, offset / kSignatureRate};
  }
  return best;
}

}  // namespace kinora::dedup
