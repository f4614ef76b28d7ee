#include "tar.hpp"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <memory>
#include <utility>

namespace kinora::shard {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

}  // namespace

Utf8Names::Utf8Names() {
  static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);  // for the process's lifetime
  before_ = ::uselocale(utf8);  // of a null locale: changes nothing
}

Utf8Names::~Utf8Names() { ::uselocale(before_); }

TarWriter::TarWriter(std::string_view uri) : uri_(uri), out_(uri), archive_(archive_write_new()) {
  if (!archive_) throw std::bad_alloc();
  const auto write = [](struct archive*, void* self, const void* data, size_t size) -> la_ssize_t {
    auto& w = *static_cast<TarWriter*>(self);
    if (w.abandoned_) return static_cast<la_ssize_t>(size);
    try {
      w.put(data, size);
    } catch (...) {
      w.error_ = std::current_exception();
      return -1;
    }
    return static_cast<la_ssize_t>(size);
  };
  try {
    buffer_.reserve(kBuffer);
    check(archive_write_set_format_pax_restricted(archive_));
    // libarchive does not buffer, so that size_ is the offset of what comes next.
    check(archive_write_set_bytes_per_block(archive_, 0));
    check(archive_write_set_bytes_in_last_block(archive_, 1));
    check(archive_write_open(archive_, this, nullptr, write, nullptr));
  } catch (...) {
    archive_write_free(archive_);
    throw;
  }
}

TarWriter::~TarWriter() {
  abandoned_ = true;  // libarchive finishes an archive that is not closed, and leaks if it cannot
  archive_write_free(archive_);
}

void TarWriter::check(int64_t status) {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (status >= ARCHIVE_OK) return;
  const char* text = archive_error_string(archive_);
  throw Error(KINORA_ERROR_FAILED,
              uri_ + ": cannot write the tar archive: " + (text ? text : "unknown error of libarchive"));
}

void TarWriter::put(const void* data, size_t size) {
  if (buffer_.size() + size > kBuffer) flush();
  if (size > kBuffer)
    out_.write(data, size);
  else
    buffer_.append(static_cast<const char*>(data), size);
  size_ += size;
}

void TarWriter::flush() {
  if (!buffer_.empty()) out_.write(buffer_);
  buffer_.clear();
}

Member TarWriter::begin(const std::string& name, uint64_t size) {
  check(archive_write_finish_entry(archive_));  // pads the member before
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                       archive_entry_free);
  if (!entry) throw std::bad_alloc();
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_uid(entry.get(), 0);
  archive_entry_set_gid(entry.get(), 0);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
  Member member{name, size_, 0, size};
  check(archive_write_header(archive_, entry.get()));
  member.content = size_;
  return member;
}

void TarWriter::write(const void* data, uint64_t size) {
  if (size > 0) check(archive_write_data(archive_, data, size));
}

uint64_t TarWriter::commit() {
  check(archive_write_finish_entry(archive_));
  const uint64_t end = size_;
  check(archive_write_close(archive_));
  flush();
  out_.commit();
  return end;
}

uint64_t most_in_archive(std::string_view name, uint64_t size) {
  constexpr uint64_t kBlock = 512, kLongestName = 100, kLargestSize = uint64_t{1} << 33;  // of ustar
  constexpr uint64_t kOfRecords = 64;  // what pax adds to a name and a size
  const auto padded = [](uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; };
  const bool is_plain = name.size() <= kLongestName && size < kLargestSize &&
                        std::none_of(name.begin(), name.end(), [](unsigned char c) { return c >= 0x80; });
  return kBlock + padded(size) + (is_plain ? 0 : kBlock + padded(name.size() + kOfRecords));
}

}  // namespace kinora::shard
