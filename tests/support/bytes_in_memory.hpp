// Bytes in memory as a byte source.
#pragma once
#include <algorithm>
#include <cstring>
#include <span>

#include "core/io/byte_source.hpp"

namespace kinora::test {

// Borrows the bytes.
class Memory final : public core::ByteSource {
 public:
  Memory(std::string name, std::span<const uint8_t> bytes) : name_(std::move(name)), bytes_(bytes) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  core::Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
    if (offset >= bytes_.size()) return uint64_t{0};
    const uint64_t n = std::min<uint64_t>(size, bytes_.size() - offset);
    std::memcpy(to, bytes_.data() + offset, n);
    return n;
  }

 private:
  std::string name_;
  std::span<const uint8_t> bytes_;
};

inline std::shared_ptr<const core::ByteSource> bytes_in_memory(std::string name,
                                                               std::span<const uint8_t> bytes) {
  return std::make_shared<Memory>(std::move(name), bytes);
}

}  // namespace kinora::test
