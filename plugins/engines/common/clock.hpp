// The time of a run: the machine's, or that of a test or a simulation.
#pragma once
#include <chrono>
#include <functional>

namespace kinora::engines {

using Time = std::chrono::steady_clock::time_point;
using Clock = std::function<Time()>;

inline double seconds_between(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }
inline Time after(Time from, double seconds) {
  return from +
         std::chrono::ceil<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace kinora::engines
