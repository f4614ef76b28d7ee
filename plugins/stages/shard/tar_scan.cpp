#include "tar_scan.hpp"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <cerrno>

#include "utf8_names.hpp"

namespace kinora::shard {
namespace {

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
    throw Error(KINORA_DATA, uri + ": entry " + std::to_string(out.members.size()) + " cannot be read (" +
                                 (text ? text : "cut off") + "); remove the shard and run again to write it anew");
  }
  return out;
}

}  // namespace kinora::shard
