#include "tar.hpp"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
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

// Gives libarchive access to a Reader: reads the headers and skips the contents.
struct Source {
  explicit Source(const std::string& uri) : reader(uri) {}
  Reader reader;
  uint64_t at = 0;
  std::vector<char> block = std::vector<char>(16 * 1024);

  static la_ssize_t read(struct archive* a, void* self, const void** data) {
    auto& s = *static_cast<Source*>(self);
    try {
      const uint64_t got = s.reader.read(s.at, s.block.data(), s.block.size());
      s.at += got;
      *data = s.block.data();
      return static_cast<la_ssize_t>(got);
    } catch (const std::exception& e) {
      archive_set_error(a, EIO, "%s", e.what());
      return -1;
    }
  }
  static la_int64_t skip(struct archive*, void* self, la_int64_t n) {
    auto& s = *static_cast<Source*>(self);
    const auto left = static_cast<uint64_t>(s.reader.size()) - s.at;
    const uint64_t skipped = std::min(left, static_cast<uint64_t>(n));
    s.at += skipped;
    return static_cast<la_int64_t>(skipped);
  }
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

TarContents scan_tar(const std::string& uri) {
  const Utf8Names names;
  Source source(uri);
  const std::unique_ptr<struct archive, int (*)(struct archive*)> a(archive_read_new(), archive_read_free);
  if (!a) throw std::bad_alloc();
  archive_read_support_format_tar(a.get());
  archive_read_set_options(a.get(), "tar:read_concatenated_archives=0");
  TarContents out;
  int status = archive_read_open2(a.get(), &source, nullptr, Source::read, Source::skip, nullptr);
  struct archive_entry* entry = nullptr;
  while (status == ARCHIVE_OK && (status = archive_read_next_header(a.get(), &entry)) == ARCHIVE_OK) {
    const char* name = archive_entry_pathname(entry);
    const auto content = static_cast<uint64_t>(archive_filter_bytes(a.get(), 0));
    const auto size = static_cast<uint64_t>(archive_entry_size(entry));
    out.members.push_back(
        {name ? name : "", static_cast<uint64_t>(archive_read_header_position(a.get())), content, size});
    out.end = content + (size + 511) / 512 * 512;
  }
  if (status != ARCHIVE_EOF || out.end > static_cast<uint64_t>(source.reader.size())) {
    const char* text = archive_error_string(a.get());
    throw Error(KINORA_ERROR_DATA, uri + ": entry " + std::to_string(out.members.size()) +
                                       " cannot be read (" + (text ? text : "cut off") +
                                       "); remove the shard and run again to write it anew");
  }
  return out;
}

}  // namespace kinora::shard
