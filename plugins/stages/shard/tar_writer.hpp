// A tar archive on its way into a file of any storage.
#pragma once
#include <exception>
#include <memory>
#include <string>

#include "kinora/io.hpp"

struct archive;

namespace kinora::shard {

// Where a member lies in the archive, in bytes.
struct Member {
  std::string name;
  uint64_t header;   // of its first header block
  uint64_t content;  // of its bytes
  uint64_t size;
};

// The same members give the same bytes: headers are ustar with mode 0644, time and owner 0; a name that is
// too long for ustar, or not ASCII, gets a pax header, as POSIX has it. The file appears on commit().
class TarWriter {
 public:
  explicit TarWriter(std::string_view uri);
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;
  ~TarWriter();
  Member append(const std::string& name, const void* data, uint64_t size);
  // Bytes so far: where the next header goes.
  uint64_t size() const { return size_; }
  void commit();

 private:
  void check(int64_t status);
  std::string uri_;
  Writer out_;
  struct archive* archive_;
  uint64_t size_ = 0;
  bool abandoned_ = false;
  std::exception_ptr error_;  // of out_, carried through libarchive
};

// Bytes that a member adds, but for pax headers.
constexpr uint64_t padded(uint64_t size) { return 512 + (size + 511) / 512 * 512; }

}  // namespace kinora::shard
