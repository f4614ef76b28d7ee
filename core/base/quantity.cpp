#include "core/base/quantity.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace kinora::core {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 12> units{{{"", 1},
                                      {"b", 1},
                                      {"kib", 1024.0},
                                      {"mib", 1024.0 * 1024},
                                      {"gib", 1024.0 * 1024 * 1024},
                                      {"tib", 1024.0 * 1024 * 1024 * 1024},
                                      {"kb", 1e3},
                                      {"mb", 1e6},
                                      {"gb", 1e9},
                                      {"tb", 1e12},
                                      {"byte", 1},
                                      {"bytes", 1}}};

std::string unit_of(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

Result<int64_t> parse_size(std::string_view text) {
  const auto wrong = [&] {
    return fail(KINORA_ERROR_INVALID, "'{}' is not a size; write for example \"2 GiB\", \"512 MiB\" or 4096",
                text);
  };
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return wrong();
  const std::string unit = unit_of(text.substr(static_cast<size_t>(end - text.data())));
  for (const auto& u : units) {
    if (u.name != unit) continue;
    const double bytes = number * u.bytes;
    if (!(bytes < 0x1p63)) return fail(KINORA_ERROR_INVALID, "'{}' is larger than 2^63 bytes", text);
    // An integer without a unit keeps all its digits, which a double would not.
    int64_t exact = 0;
    const auto whole = std::from_chars(text.data(), text.data() + text.size(), exact);
    if (u.bytes == 1 && whole.ptr == end && whole.ec == std::errc()) return exact;
    return static_cast<int64_t>(std::llround(bytes));
  }
  return wrong();
}

std::string format_size(uint64_t bytes) {
  constexpr std::array names = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t i = 0;
  for (; value >= 1024 && i + 1 < names.size(); ++i) value /= 1024;
  return fmt::format("{:.2f} {}", value, names[i]);
}

std::string duration_text(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

}  // namespace kinora::core
