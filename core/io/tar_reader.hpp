// The members of a tar archive, one after the other. Built for hostile input: memory is bounded, every end is
// checked.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/io/byte_source.hpp"

namespace kinora::core {

struct TarMember {
  std::string name;
  uint64_t number = 0;  // the first is 1; what errors say
  uint64_t header = 0;  // offset of its first header block; meaningless in a compressed archive
  uint64_t end = 0;     // of its content, padding included; likewise
  uint64_t size = 0;    // of its content
};

// Plain or gzip-compressed; ustar, pax and GNU names. Files only: folders, links and devices are passed over.
// [owner-thread]
class TarReader {
 public:
  // need_end: an archive without its end-of-archive block counts as cut off.
  static Result<TarReader> open(std::shared_ptr<const ByteSource> source, bool need_end = true);
  TarReader(TarReader&&) noexcept;
  TarReader& operator=(TarReader&&) noexcept;
  ~TarReader();
  // Whether the offsets of members mean something: the archive is not compressed.
  bool seekable() const;
  // The next file, or nothing at the end. What was not read of the one before is passed over.
  Result<std::optional<TarMember>> next();
  // The content of the member that next() gave; fails if it is larger than `limit`.
  Result<std::vector<uint8_t>> content(uint64_t limit);

 private:
  struct State;
  explicit TarReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kinora::core
