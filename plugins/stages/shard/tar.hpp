// Writes tar archives to files on any storage.
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kinora/io.hpp"

struct archive;

namespace kinora::shard {

// Position of a member in the archive, in bytes.
struct Member {
  std::string name;
  uint64_t header;   // offset of its first header block
  uint64_t content;  // offset of its content
  uint64_t size;
};

// The same members give the same bytes: headers are ustar with mode 0644, time and owner 0. A name that is
// too long for ustar, or not ASCII, gets a pax header as in POSIX. The file appears on commit().
class TarWriter {
 public:
  explicit TarWriter(std::string_view uri);
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;
  ~TarWriter();
  // Throws Error if the storage fails; the writer may then only be destroyed.
  Member append(const std::string& name, const void* data, uint64_t size);
  // Bytes written so far, which is the offset of the next header.
  uint64_t size() const { return size_; }
  void commit();

 private:
  void check(int64_t status);
  std::string uri_;
  Writer out_;
  struct archive* archive_;
  uint64_t size_ = 0;
  bool abandoned_ = false;
  std::exception_ptr error_;  // error of out_, carried through libarchive
};

// Bytes that a member adds, without pax headers.
constexpr uint64_t padded(uint64_t size) { return 512 + (size + 511) / 512 * 512; }

}  // namespace kinora::shard
