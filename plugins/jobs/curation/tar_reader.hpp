// Reads the members of a tar archive, one after the other. Built for hostile input: memory is bounded, every
// end is checked.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/io/byte_source.hpp"

namespace kinora::core {

struct TarMember {
  std::string name;
  uint64_t number = 0;  // counted from 1, for errors
  uint64_t header = 0;  // offset of its first header block; meaningless in a compressed archive
  uint64_t end = 0;     // end offset of its content with padding; likewise
  uint64_t size = 0;    // size of its content
};

// Plain or gzip-compressed; ustar, pax and GNU names. Files only: folders, links and devices are skipped.
// [owner-thread]
class TarReader {
 public:
  // need_end: an archive without its end-of-archive block counts as cut off.
  static Result<TarReader> open(std::shared_ptr<const ByteSource> source, bool need_end = true);
  TarReader(TarReader&&) noexcept;
  TarReader& operator=(TarReader&&) noexcept;
  ~TarReader();
  // Whether the offsets of members are valid: the archive is not compressed.
  bool seekable() const;
  // The next file, or nothing at the end. Skips the unread rest of the previous one.
  Result<std::optional<TarMember>> next();
  // The content of the member that next() returned; fails if it is larger than `limit`.
  Result<std::vector<uint8_t>> content(uint64_t limit);

 private:
  struct State;
  explicit TarReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kinora::core
