// The memory that all descendants of this process use together.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace kinora {

// Bytes in use now by the descendants of this process: their proportional shares (PSS), and memory files that no process
// has mapped.
uint64_t family_memory();

// Samples family_memory() every 50 ms while the object lives and keeps the largest value in `most`.
class WatchedMemory {
 public:
  explicit WatchedMemory(uint64_t& most);
  WatchedMemory(const WatchedMemory&) = delete;
  WatchedMemory& operator=(const WatchedMemory&) = delete;
  ~WatchedMemory();

 private:
  std::mutex mutex_;
  std::condition_variable end_;
  bool over_ = false;
  std::thread looking_;
};

}  // namespace kinora
