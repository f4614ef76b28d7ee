#include "tar.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

namespace kinora::shard {
namespace {

// During its lifetime libarchive treats names of members on this thread as UTF-8, whatever the process's
// locale, so the same names give the same bytes everywhere.
class Utf8Names {
 public:
  Utf8Names() : locale_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (locale_) before_ = ::uselocale(locale_);
  }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;
  ~Utf8Names() {
    if (!locale_) return;
    ::uselocale(before_);
    ::freelocale(locale_);
  }

 private:
  locale_t locale_, before_ = nullptr;
};

}  // namespace

TarWriter::TarWriter(std::string_view uri) : uri_(uri), out_(uri), archive_(archive_write_new()) {
  if (!archive_) throw std::bad_alloc();
  const auto write = [](struct archive*, void* self, const void* data, size_t size) -> la_ssize_t {
    auto& w = *static_cast<TarWriter*>(self);
    if (w.abandoned_) return static_cast<la_ssize_t>(size);
    try {
      w.out_.write(data, size);
    } catch (...) {
      w.error_ = std::current_exception();
      return -1;
    }
    w.size_ += size;
    return static_cast<la_ssize_t>(size);
  };
  try {
    check(archive_write_set_format_pax_restricted(archive_));
    check(archive_write_set_bytes_per_block(
        archive_,
        0));  // unbuffered, so that size_ is the position of the next header
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

Member TarWriter::append(const std::string& name, const void* data, uint64_t size) {
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
  const Utf8Names names;
  Member member{name, size_, 0, size};
  check(archive_write_header(archive_, entry.get()));
  member.content = size_;
  if (size > 0) check(archive_write_data(archive_, data, size));
  check(archive_write_finish_entry(archive_));
  return member;
}

void TarWriter::commit() {
  check(archive_write_close(archive_));
  out_.commit();
}

}  // namespace kinora::shard
