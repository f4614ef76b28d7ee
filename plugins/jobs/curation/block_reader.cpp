#include "plugins/jobs/curation/block_reader.hpp"

#include <algorithm>
#include <span>

#include "plugins/jobs/curation/plain_tar.hpp"

namespace kinora::core {

std::optional<WebDatasetSample> BlockReader::next(const ByteSource& shard, uint64_t offset, uint64_t size,
                                                  uint64_t end) {
  constexpr uint64_t kRun = 3;  // shuffled samples may follow each other by chance
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return std::nullopt;
  run_ = offset == next_ ? run_ + 1 : 0;
  next_ = offset + size;
  std::optional<WebDatasetSample> out;
  if (run_ >= kRun && size <= kLarge) {
    if (!has(offset, size)) fill(shard, offset, end);
    if (has(offset, size)) out = plain_sample(std::span(block_->bytes).subspan(offset - first_, size));
  }
  if (run_ == 0 || next_ == end) block_.reset();
  return out;
}

void BlockReader::fill(const ByteSource& shard, uint64_t offset, uint64_t end) {
  if (!block_) block_ = std::make_unique_for_overwrite<Block>();
  size_ = 0;
  first_ = offset;
  size_ = or_throw(shard.read(offset, block_->bytes.data(), std::min(kBlock, end - offset)));
}

}  // namespace kinora::core
