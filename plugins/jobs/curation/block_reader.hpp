// The samples of a local shard that are taken one after the other, read in blocks: one read for many of them.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "core/io/byte_source.hpp"
#include "kinora/webdataset.hpp"

namespace kinora::core {

// Keeps at most one block of 1 MiB, until the last sample or a jump. [any-thread]
class BlockReader {
 public:
  // The sample at [offset, offset + size), without its place in `where`. Nothing if the caller must read it alone: it
  // does not follow several others that were asked for, it is large, it is not plain, or another thread reads here.
  // end: of the last sample of the shard. Throws Error of the shard.
  std::optional<WebDatasetSample> next(const ByteSource& shard, uint64_t offset, uint64_t size, uint64_t end);

 private:
  static constexpr uint64_t kBlock = 1 << 20, kLarge = kBlock / 8;  // bytes
  // Linux copies half as fast to an address that is only aligned to 16 bytes.
  struct alignas(64) Block {
    std::array<uint8_t, kBlock> bytes;
  };

  bool has(uint64_t offset, uint64_t size) const {
    return block_ && offset >= first_ && offset + size <= first_ + size_;
  }
  void fill(const ByteSource& shard, uint64_t offset, uint64_t end);

  std::mutex mutex_;
  uint64_t next_ = 0, run_ = 0;  // end of the sample that was asked for last; how many followed each other
  std::unique_ptr<Block> block_;
  uint64_t first_ = 0, size_ = 0;  // of the shard's bytes in the block
};

}  // namespace kinora::core
