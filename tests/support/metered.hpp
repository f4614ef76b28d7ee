// Counts the bytes of CPU tensors.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace kinora::test {

// A block is its own context, as oneDNN's scratch memory requires.
class Metered final : public c10::Allocator {
 public:
  // Counts all tensors from now on; earlier ones are not counted.
  static void begin() {
    static auto* const meter = new Metered;  // its tensors may outlive every test
    static const bool once = (c10::SetCPUAllocator(meter, 1), true);
    (void)once;
    const std::lock_guard lock(mutex);
    peak = start = live;
  }
  // Peak of the counted bytes since begin(), above their value at that time.
  static int64_t most() { return peak - start; }
  // The same, since the last call.
  static int64_t take_most() {
    const std::lock_guard lock(mutex);
    return std::exchange(peak, live) - start;
  }
  // Counted bytes that are in use now.
  static int64_t now() {
    const std::lock_guard lock(mutex);
    return live - start;
  }

  c10::DataPtr allocate(size_t n) override {
    if (n == 0) return {nullptr, nullptr, drop, c10::Device(c10::kCPU)};
    void* data = std::aligned_alloc(64, (n + 63) / 64 * 64);
    const std::lock_guard lock(mutex);
    sizes[data] = static_cast<int64_t>(n);
    live += static_cast<int64_t>(n);
    peak = std::max<int64_t>(peak, live);
    return {data, data, drop, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return drop; }
  void copy_data(void* to, const void* from, size_t n) const override { std::memcpy(to, from, n); }

 private:
  static void drop(void* data) {
    if (!data) return;
    const std::lock_guard lock(mutex);
    live -= sizes.at(data);
    sizes.erase(data);
    std::free(data);
  }
  static inline std::mutex mutex;
  static inline int64_t live = 0, peak = 0, start = 0;
  static inline std::unordered_map<void*, int64_t> sizes;
};

}  // namespace kinora::test
