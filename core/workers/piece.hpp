// Bytes that two processes map: sealed shared memory; from kInFile bytes on a file without a name in TMPDIR,
// which the system may write out and drop from memory at any time. What took a film's length of bytes to hold
// takes disk so, and no memory.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/workers/channel.hpp"

namespace kinora::core {

constexpr size_t kInFile = 32 << 20;

// A piece with a copy of these bytes. Throws Error(KINORA_NO_MEMORY), Error(KINORA_IO) if TMPDIR is full or
// cannot be written.
Descriptor piece_of(const void* data, size_t size);

// The file without a name that these bytes are a shared mapping of, from its first byte on, if this process
// has it open still: they are a piece already. Empty if they are none.
Descriptor file_behind(const void* data, size_t size);

// A piece in this process's memory. It is private: what is written into it changes nobody else's.
class Mapping {
 public:
  // Throws Error(KINORA_DATA) where the piece is shorter than it should be, or memory that its sender could
  // still shrink.
  Mapping(const Descriptor& piece, size_t size);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  // The piece again, to send on without a copy; empty of one that is small, for open files are few.
  Descriptor again() const;

 private:
  void* data_ = nullptr;
  size_t size_;
  Descriptor kept_;
};

}  // namespace kinora::core
