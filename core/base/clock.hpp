// Elapsed time, and the time of day.
#pragma once
#include <chrono>
#include <ctime>
#include <string>

namespace kinora::core {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// "2026-11-29T02:44:00Z"
inline std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

}  // namespace kinora::core
