#include "plugins/jobs/report/words.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace kinora::core::report {
namespace {

#define NBSP "\u00A0"
// Larger doubles do not fit an int64_t, and such a duration is nonsense anyway.
constexpr double kHuge = 9e15;

}  // namespace

std::string count(int64_t n) {
  std::string out = std::to_string(n);
  const size_t first = n < 0 ? 1 : 0;
  for (size_t i = out.size(); i > first + 3; i -= 3) out.insert(i - 3, ",");
  return out;
}

std::string duration(double seconds) {
  if (!(seconds >= 0) || seconds > kHuge) return "unknown";
  if (seconds < 0.95) return fmt::format("{:.2g}" NBSP "s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f}" NBSP "s", seconds);
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 3600) return fmt::format("{}" NBSP "min" NBSP "{:02}" NBSP "s", s / 60, s % 60);
  return fmt::format("{}" NBSP "h" NBSP "{:02}" NBSP "min", count(s / 3600), s / 60 % 60);
}

}  // namespace kinora::core::report
