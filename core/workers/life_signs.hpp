// A page that a process and its worker share for signals that cannot wait for a message: the worker counts up
// whenever its stage reports that it is alive, and the process asks it to stop.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/workers/channel.hpp"

namespace kinora::core {

class LifeSigns {
 public:
  struct Page {
    std::atomic<uint64_t> beats;
    std::atomic<uint32_t> stop;
    std::atomic<uint32_t> left;  // the worker has lost its connection and is terminating itself
  };
  // A new page. Throws Error.
  LifeSigns();
  // The page behind an inherited descriptor.
  explicit LifeSigns(Descriptor memory);
  ~LifeSigns();
  LifeSigns(const LifeSigns&) = delete;
  LifeSigns& operator=(const LifeSigns&) = delete;

  Page& page() const { return *page_; }
  int descriptor() const { return memory_.get(); }

 private:
  void map();
  Descriptor memory_;
  Page* page_ = nullptr;
};

}  // namespace kinora::core
