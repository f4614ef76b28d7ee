// Tar archives in memory, made by libarchive. LIBS PkgConfig::ARCHIVE.
#pragma once
#include <archive.h>
#include <archive_entry.h>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kinora::test {

// Names and contents; a name that ends in '/' is a folder.
using TarFiles = std::vector<std::pair<std::string, std::string>>;

inline void ustar(struct archive* a) { archive_write_set_format_ustar(a); }

// prepare: sets the format and filters. Empty if libarchive refuses.
inline std::string tar_bytes(const TarFiles& files,
                             const std::function<void(struct archive*)>& prepare = ustar) {
  std::string out;
  const auto write = [](struct archive*, void* to, const void* data, size_t n) -> la_ssize_t {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), n);
    return static_cast<la_ssize_t>(n);
  };
  struct archive* a = archive_write_new();
  prepare(a);
  archive_write_set_bytes_in_last_block(a, 1);
  bool done = archive_write_open(a, &out, nullptr, write, nullptr) == ARCHIVE_OK;
  for (const auto& [name, bytes] : files) {
    archive_entry* e = archive_entry_new();
    archive_entry_set_pathname(e, name.c_str());
    archive_entry_set_filetype(e, name.ends_with('/') ? AE_IFDIR : AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, static_cast<la_int64_t>(bytes.size()));
    done = done && archive_write_header(a, e) >= ARCHIVE_WARN;
    archive_write_data(a, bytes.data(), bytes.size());
    archive_entry_free(e);
  }
  archive_write_close(a);
  archive_write_free(a);
  return done ? out : "";
}

}  // namespace kinora::test
