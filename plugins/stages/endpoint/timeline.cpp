#include "timeline.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::endpoint {
namespace {

constexpr int64_t kFewest = 4;
constexpr double kRounding = 1e-6;  // seconds; times are sums of fractions

}  // namespace

std::vector<Window> windows(int64_t frames, int64_t size, int64_t remainder) {
  std::vector<Window> out;
  if (frames < kFewest) return out;
  for (int64_t begin = 0; begin < frames; begin += size) {
    const int64_t end = std::min(frames, begin + size);
    if (!out.empty() && end - begin < std::min(size, remainder))
      out.back().end = end;
    else
      out.push_back({begin, end});
  }
  return out;
}

std::vector<size_t> spread(size_t n, int64_t most) {
  std::vector<size_t> out;
  const size_t count = std::min(n, static_cast<size_t>(std::max<int64_t>(most, 0)));
  for (size_t i = 0; i < count; ++i)
    out.push_back(count == 1 ? n / 2 : (i * (n - 1) + (count - 1) / 2) / (count - 1));
  return out;
}

int64_t Timeline::video_frames() const {
  if (frames > 0) return frames;
  return at.empty() ? 0 : frame(at.size() - 1) + 1;
}

int64_t Timeline::frame(size_t i) const {
  return fps > 0 ? std::llround(at[i] * fps) : static_cast<int64_t>(i);
}

std::vector<size_t> Timeline::pick(const Window& window, double rate, int64_t most) const {
  std::vector<size_t> in;
  double next = -1;
  for (size_t i = 0; i < at.size(); ++i) {
    if (frame(i) < window.begin || frame(i) >= window.end) continue;
    if (rate > 0 && !in.empty() && at[i] + kRounding < next) continue;
    if (in.empty()) next = at[i];
    in.push_back(i);
    if (rate > 0) next += (std::floor((at[i] + kRounding - next) * rate) + 1) / rate;
  }
  std::vector<size_t> out;
  for (const size_t i : spread(in.size(), most)) out.push_back(in[i]);
  return out;
}

}  // namespace kinora::endpoint
