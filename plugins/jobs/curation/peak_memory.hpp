// The most memory that this process has held while one job of its run was at work.
#pragma once
#include <atomic>
#include <cstdint>

namespace kinora::core {

// Counts from its construction on.
class PeakMemory {
 public:
  PeakMemory();
  // [any-thread] Looks at what is held now.
  void look();
  // Bytes. Exact where the process has never held as much before; else the most that look() has seen.
  int64_t most();

 private:
  const int64_t before_;
  std::atomic<int64_t> seen_{0};
};

}  // namespace kinora::core
