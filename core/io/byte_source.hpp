// Bytes with random access: a file on any storage.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

namespace kinora::core {

// [any-thread] all functions.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Its name in errors.
  virtual const std::string& name() const = 0;
  virtual uint64_t size() const = 0;
  // Returns fewer than `size` bytes only at the end.
  virtual Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const = 0;
  // The same for what is read as a whole and may be read again, a sample or an index: a source with a cache keeps it.
  virtual Result<uint64_t> read_kept(uint64_t offset, void* to, uint64_t size) const {
    return read(offset, to, size);
  }
};

// A local path, or "scheme://..." through kinora.io/1. Pipes, sockets, devices and folders are refused
// without blocking.
Result<std::shared_ptr<const ByteSource>> open_bytes(std::string_view uri);
// Exactly these bytes, or a failure with KINORA_ERROR_DATA. `size` may be what a stranger's file or server
// says: memory grows with the bytes that arrive, 16 MiB ahead of them at most. keep: by read_kept.
Result<std::vector<uint8_t>> read_exactly(const ByteSource& source, uint64_t offset, uint64_t size,
                                          bool keep = false);
// A failure that names the kind of file at this local path if it is not a regular file; nothing if it cannot
// be accessed.
Status check_regular_file(const std::string& path);
// All bytes of a small file; fails if it is larger than `limit`.
Result<std::string> read_text(std::string_view uri, uint64_t limit);
Result<std::string> read_text(const ByteSource& source, uint64_t limit);

}  // namespace kinora::core
