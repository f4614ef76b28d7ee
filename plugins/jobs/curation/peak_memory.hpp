// Measures the peak memory of this process during one job of its run.
#pragma once
#include <atomic>
#include <cstdint>

namespace kinora::core {

// Measures from its construction on.
class PeakMemory {
 public:
  PeakMemory();
  // [any-thread] Samples the current memory.
  void look();
  // Bytes. Exact if the process never held as much before; else the maximum that look() has seen.
  int64_t most();

 private:
  const int64_t before_;
  std::atomic<int64_t> seen_{0};
};

}  // namespace kinora::core
