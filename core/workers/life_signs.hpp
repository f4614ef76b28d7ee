// A page that a process and its worker share, for what cannot wait for a message: the worker counts up
// whenever its stage shows that it lives, the process asks it to stop.
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
    std::atomic<uint32_t> left;  // the worker has lost its connection and ends itself
  };
  // A new page. Throws Error.
  LifeSigns();
  // The page behind a descriptor that was inherited.
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
