// Formats numbers for the line that sums up a run. A number and its unit are joined by a no-break space.
#pragma once
#include <cstdint>
#include <string>

namespace kinora::core::report {

std::string count(int64_t n);          // 12,345
std::string duration(double seconds);  // 0.08 s, 4.0 s, 3 min 20 s, 1 h 04 min

}  // namespace kinora::core::report
