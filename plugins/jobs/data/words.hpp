// Counts and durations as pages show them, the same as plugins/jobs/report/page/words.js writes. A number and its unit
// are joined by a no-break space.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace kinora::words {

// 12,345
inline std::string count(int64_t n) {
  std::string out = std::to_string(n);
  const size_t first = n < 0 ? 1 : 0;
  for (size_t i = out.size(); i > first + 3; i -= 3) out.insert(i - 3, ",");
  return out;
}

// To one decimal; halves go up, whatever the formatting would do: 1.25 s is 1.3 s wherever it stands.
inline double tenths(double seconds) { return std::floor(10 * seconds + 0.5) / 10; }

// 0.08 s, 4.0 s, 3 min 20 s, 1 h 04 min
inline std::string duration(double seconds) {
  constexpr double kHuge =
      9e15;  // larger doubles do not fit an int64_t, and such a duration is nonsense anyway
  if (!(seconds >= 0) || seconds > kHuge) return "unknown";
  if (seconds < 0.95) return fmt::format("{:.2g}\u00A0s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f}\u00A0s", tenths(seconds));
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 3600) return fmt::format("{}\u00A0min\u00A0{:02}\u00A0s", s / 60, s % 60);
  return fmt::format("{}\u00A0h\u00A0{:02}\u00A0min", count(s / 3600), s / 60 % 60);
}

}  // namespace kinora::words
