// What all processes that this one has started hold together.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace kinora {

// Bytes now, of the processes that this one has started, they and theirs: their proportional shares (PSS), and memory files
// that nobody has mapped.
uint64_t family_memory();

// Keeps in `most` the largest family_memory() that it sees, looking every 50 ms while it lives.
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
