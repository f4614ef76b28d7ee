// Memory of this process, for tests of what grows.
#pragma once
#include <cstdint>
#include <fstream>
#include <malloc.h>
#include <string>

namespace kinora::test {

// Under sanitizers freed memory stays for a while, so that the numbers say nothing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCountsMemory = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool kCountsMemory = false;
#else
inline constexpr bool kCountsMemory = true;
#endif
#else
inline constexpr bool kCountsMemory = true;
#endif

// Resident memory in bytes; -1: unknown.
inline int64_t resident() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(line.find(':') + 1)) * 1024;
  return -1;
}

// Of what is in use: freed memory goes back to the system first, so that none of it hides a leak.
inline int64_t resident_in_use() {
  malloc_trim(0);
  return resident();
}

}  // namespace kinora::test
