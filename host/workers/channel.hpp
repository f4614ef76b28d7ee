// The connection between this process and one of its workers: messages, and a page of shared signals.
//
// Messages go over a socket pair that preserves their boundaries (SOCK_SEQPACKET). A message: the size of its
// head (4 bytes, native order, since both ends are on one machine), its head in MessagePack, then plain bytes; and
// descriptors of shared memory alongside.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/status.hpp"

namespace kinora::core {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

struct Message {
  nlohmann::json head;
  std::string bytes;               // at most kMostBytes
  std::vector<Descriptor> shared;  // at most kMostShared

  static constexpr size_t kMostBytes = 48 << 10, kMostShared = 64;

  // Sets head and bytes to those of a packet as above. Throws Error(KINORA_ERROR_DATA).
  void parse(std::string_view packet);
};

class Channel {
 public:
  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}

  // Throws Error(KINORA_ERROR_IO) if the other end is gone or the message is too large.
  void send(const Message&) const;
  enum class Got { message, nothing, closed };
  // Waits up to this many milliseconds (-1: without limit). Throws Error(KINORA_ERROR_DATA) for an invalid
  // message: the other end may be a decoder whose memory was corrupted.
  Got receive(Message& out, int milliseconds) const;
  int descriptor() const { return socket_.get(); }

 private:
  Descriptor socket_;
};

// Both ends. Throws Error.
std::pair<Descriptor, Descriptor> socket_pair();

// A page that a process and its worker share for signals that cannot wait for a message: the worker counts up
// whenever its stage reports that it is alive, and the process asks it to stop.
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
