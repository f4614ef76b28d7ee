// Formats numbers for readers. A number and its unit are joined by a no-break space.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace kinora::core::report {

std::string count(int64_t n);                          // 12,345
std::string counted(int64_t n, std::string_view one);  // 1 clip, 2 clips; "s" makes the plural
std::string number(double v, int digits = 3);          // significant digits: 0.0123, 1,234, 3×10⁻⁷
std::string power_of_ten(int exponent);                // 10⁻³
std::string duration(double seconds);                  // 0.08 s, 4.0 s, 3 min 20 s, 1 h 04 min
std::string timecode(double seconds);                  // 0:03.5, 1:02:03.5
std::string byte_size(double bytes);                   // 1.2 MiB

// "width:41.2%": styles need a decimal point in any locale.
std::string percent(double share);

}  // namespace kinora::core::report
