#include "plugins/jobs/report/words.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace kinora::core::report {
namespace {

#define NBSP "\u00A0"
// Larger doubles do not fit an int64_t, and such a duration is nonsense anyway.
constexpr double kHuge = 9e15;

std::string fixed(double v, int decimals) {
  std::string out = fmt::format("{:.{}f}", v, decimals);
  const size_t point = std::min(out.find('.'), out.size());
  const size_t first = out[0] == '-' ? 1 : 0;
  for (size_t i = point; i > first + 3; i -= 3) out.insert(i - 3, ",");
  return out;
}

std::string superscript(int n) {
  static const char* const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = n < 0 ? "⁻" : "";
  for (char c : std::to_string(std::abs(n))) out += digits[c - '0'];
  return out;
}

void drop_zeros(std::string& text) {
  if (text.find('.') == std::string::npos) return;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
}

}  // namespace

std::string count(int64_t n) { return fixed(static_cast<double>(n), 0); }

std::string counted(int64_t n, std::string_view one) {
  return count(n) + NBSP + std::string(one) + (n == 1 ? "" : "s");
}

std::string power_of_ten(int exponent) { return "10" + superscript(exponent); }

std::string number(double v, int digits) {
  if (std::isnan(v)) return "not a number";
  if (std::isinf(v)) return v > 0 ? "∞" : "−∞";
  if (v == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(v)) + 1e-12));
  if (exponent < -4 || exponent > 14) {
    std::string mantissa = fmt::format("{:.{}f}", v / std::pow(10.0, exponent), digits - 1);
    drop_zeros(mantissa);
    return mantissa + "×" + power_of_ten(exponent);
  }
  std::string out = fixed(v, std::max(0, digits - 1 - exponent));
  drop_zeros(out);
  return out;
}

std::string duration(double seconds) {
  if (!(seconds >= 0) || seconds > kHuge) return "unknown";
  if (seconds < 0.95) return number(seconds, 2) + NBSP "s";
  if (seconds < 59.95) return fixed(seconds, 1) + NBSP "s";
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 3600) return fmt::format("{}" NBSP "min" NBSP "{:02}" NBSP "s", s / 60, s % 60);
  return fmt::format("{}" NBSP "h" NBSP "{:02}" NBSP "min", fixed(static_cast<double>(s / 3600), 0),
                     s / 60 % 60);
}

std::string timecode(double seconds) {
  if (!(seconds >= 0) || seconds > kHuge) return "unknown";
  const auto tenths = static_cast<int64_t>(std::llround(seconds * 10));
  const int64_t s = tenths / 10;
  if (s < 3600) return fmt::format("{}:{:02}.{}", s / 60, s % 60, tenths % 10);
  return fmt::format("{}:{:02}:{:02}.{}", s / 3600, s / 60 % 60, s % 60, tenths % 10);
}

std::string byte_size(double bytes) {
  static const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return (unit == 0 ? fixed(bytes, 0) : number(bytes)) + NBSP + units[unit];
}

std::string percent(double share) {
  std::string out = fmt::format("{:.3f}", std::isfinite(share) ? share * 100 : 0.0);
  drop_zeros(out);
  return out + "%";
}

}  // namespace kinora::core::report
