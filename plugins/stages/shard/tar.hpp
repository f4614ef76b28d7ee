// Writes tar archives to files on any storage.
#pragma once
#include <exception>
#include <locale.h>
#include <string>
#include <string_view>

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

// During its lifetime libarchive treats names of members on this thread as UTF-8, whatever the process's
// locale, so the same names give the same bytes everywhere.
class Utf8Names {
 public:
  Utf8Names();
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;
  ~Utf8Names();

 private:
  locale_t before_;
};

// The same members give the same bytes: headers are ustar with mode 0644, time and owner 0. A name that is
// too long for ustar, or not ASCII, gets a pax header as in POSIX. The file appears on commit().
// [owner-thread], the destructor included.
class TarWriter {
 public:
  explicit TarWriter(std::string_view uri);
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;
  ~TarWriter();
  // All functions throw Error if the storage fails; the writer may then only be destroyed.
  // Begins a member of `size` bytes, which write() appends.
  Member begin(const std::string& name, uint64_t size);
  void write(const void* data, uint64_t size);
  // Returns where the last member ends, with padding.
  uint64_t commit();

 private:
  void check(int64_t status);
  void put(const void* data, size_t size);
  void flush();
  std::string uri_;
  Utf8Names names_;
  Writer out_;
  struct archive* archive_;
  std::string buffer_;  // not yet in out_
  uint64_t size_ = 0;   // offset of the next byte
  bool abandoned_ = false;
  std::exception_ptr error_;  // error of out_, carried through libarchive
};

// The most bytes that a member adds.
uint64_t most_in_archive(std::string_view name, uint64_t size);

}  // namespace kinora::shard
