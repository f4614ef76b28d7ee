// Bytes that two processes map: sealed shared memory, or from kInFile bytes on an unnamed file in TMPDIR,
// which the system may write out and drop from memory at any time. So data as large as a whole video needs
// disk space instead of memory.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/workers/channel.hpp"

namespace kinora::core {

constexpr size_t kInFile = 32 << 20;

// A piece with a copy of these bytes. Throws Error(KINORA_NO_MEMORY), Error(KINORA_IO) if TMPDIR is full or
// not writable.
Descriptor piece_of(const void* data, size_t size);

// The unnamed file whose shared mapping these bytes are, from its first byte on, if this process still has it
// open: then they already are a piece. Otherwise empty.
Descriptor file_behind(const void* data, size_t size);

// A piece mapped into this process's memory. The mapping is private: writing to it changes no one else's
// data.
class Mapping {
 public:
  // Throws Error(KINORA_DATA) if the piece is too short, or is memory that its sender could still shrink.
  Mapping(const Descriptor& piece, size_t size);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  // The piece again, for sending it on without a copy; empty for a small one, since open files are limited.
  Descriptor again() const;

 private:
  void* data_ = nullptr;
  size_t size_;
  Descriptor kept_;
};

}  // namespace kinora::core
