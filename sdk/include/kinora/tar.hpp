// Reads the members of a tar archive, one after the other. Built for hostile input: memory is bounded, every
// end is checked. Needs libarchive (Debian's libarchive-dev).
#pragma once
#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinora/io.hpp"

KINORA_SDK_BEGIN

namespace kinora {

struct TarMember {
  std::string name;
  uint64_t number = 0;  // counted from 1, for errors
  uint64_t header = 0;  // offset of its first header block; meaningless in a compressed archive
  uint64_t end = 0;     // end offset of its content with padding; likewise
  uint64_t size = 0;    // size of its content

  // Offset of its content; likewise.
  uint64_t content() const { return end - (size + 511) / 512 * 512; }
};

// Plain or gzip-compressed; ustar, pax and GNU names. Files only: folders, links and devices are skipped.
// Functions throw Error, KINORA_ERROR_DATA for a damaged archive, which has no further members then.
// [owner-thread]
class TarReader {
 public:
  // need_end: an archive without its end-of-archive block counts as cut off.
  explicit TarReader(RandomBytes bytes, bool need_end = true) : s_(std::make_unique<State>()) {
    if (!s_->archive) throw std::bad_alloc();
    s_->bytes = std::move(bytes);
    s_->need_end = need_end;
    s_->finished = s_->bytes.size == 0;
    if (s_->finished && need_end)
      throw Error(KINORA_ERROR_DATA, s_->bytes.name + ": not a tar archive (empty); check the file");
    archive_read_support_format_tar(s_->archive.get());
    archive_read_support_filter_gzip(s_->archive.get());
    if (!s_->finished && archive_read_open2(s_->archive.get(), s_.get(), nullptr, State::read, State::skip,
                                            nullptr) != ARCHIVE_OK)
      s_->damaged();
  }

  // Whether the offsets of members are valid: the archive is not compressed.
  bool seekable() const { return !s_->compressed(); }

  // End offset of the last entry so far, of any kind: where an error was found, or where the next header is.
  uint64_t end() const { return s_->end; }

  // The next file, or nothing at the end. Skips the unread rest of the previous one.
  std::optional<TarMember> next() {
    while (!s_->finished) {
      s_->finished = true;  // unless a member is found
      const int status = archive_read_next_header(s_->archive.get(), &s_->entry);
      if (status == ARCHIVE_EOF) {
        s_->check_end();
        break;
      }
      // A warning means a name that the locale cannot show; its bytes are right.
      if (status != ARCHIVE_OK && status != ARCHIVE_WARN) s_->damaged();
      s_->check_entry();
      s_->finished = false;
      if (archive_entry_filetype(s_->entry) == AE_IFREG && !archive_entry_hardlink(s_->entry))
        return s_->member();
    }
    return std::nullopt;
  }

  // The content of the member that next() returned.
  std::vector<uint8_t> content() {
    std::vector<uint8_t> out;
    out.reserve(std::min(s_->size(), s_->bytes.size));  // a hostile size must not allocate memory
    content([&](const uint8_t* bytes, size_t n) { out.insert(out.end(), bytes, bytes + n); });
    return out;
  }
  // The same block by block: each(const uint8_t* bytes, size_t n).
  template <class Each>
  void content(const Each& each) {
    const uint64_t size = s_->size();
    uint64_t done = 0;
    const void* data = nullptr;
    size_t n = 0;
    la_int64_t offset = 0;
    int status = ARCHIVE_OK;
    while ((status = archive_read_data_block(s_->archive.get(), &data, &n, &offset)) == ARCHIVE_OK) {
      if (static_cast<uint64_t>(offset) != done || n > size - done) s_->damaged();
      each(static_cast<const uint8_t*>(data), n);
      done += n;
    }
    if (done != size || status != ARCHIVE_EOF) s_->truncated(done);
  }

 private:
  struct State {
    RandomBytes bytes;
    bool need_end = true;
    std::unique_ptr<struct archive, int (*)(struct archive*)> archive{archive_read_new(), archive_read_free};
    struct archive_entry* entry = nullptr;
    uint64_t at = 0;  // offset of the next block for libarchive
    std::vector<uint8_t> block = std::vector<uint8_t>(64 * 1024);
    std::exception_ptr read_error;  // of the storage, carried through libarchive
    uint64_t count = 0;             // entries so far
    uint64_t end = 0;               // end offset of the last entry
    bool finished = false;

    static la_ssize_t read(struct archive* a, void* self, const void** data) {
      auto& s = *static_cast<State*>(self);
      try {
        const uint64_t got = s.bytes.read(s.at, s.block.data(), s.block.size());
        s.at += got;
        *data = s.block.data();
        return static_cast<la_ssize_t>(got);
      } catch (...) {
        s.read_error = std::current_exception();
        archive_set_error(a, EIO, "reading failed");
        return -1;
      }
    }
    static la_int64_t skip(struct archive*, void* self, la_int64_t n) {
      auto& s = *static_cast<State*>(self);
      const uint64_t skipped =
          std::min(s.bytes.size - s.at, static_cast<uint64_t>(std::max<la_int64_t>(n, 0)));
      s.at += skipped;
      return static_cast<la_int64_t>(skipped);
    }
    bool compressed() const { return archive_filter_code(archive.get(), 0) != ARCHIVE_FILTER_NONE; }
    uint64_t size() const {
      return static_cast<uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0));
    }
    [[noreturn]] void fail(const std::string& what) const {
      throw Error(KINORA_ERROR_DATA, bytes.name + ": " + what);
    }
    // Throws what libarchive or the storage says.
    [[noreturn]] void damaged() const {
      if (read_error) std::rethrow_exception(read_error);
      const char* text = archive_error_string(archive.get());
      if (count == 0)
        fail(std::string("not a tar archive (") + (text ? text : "empty") + "); check the file");
      fail("entry " + std::to_string(count + 1) + " is damaged (" + (text ? text : "unknown error") +
           "); copy it again, or run the job that made it again");
    }
    [[noreturn]] void truncated(uint64_t found) const {
      if (read_error) std::rethrow_exception(read_error);
      fail("entry " + std::to_string(count) + " is truncated (expected " + std::to_string(size()) +
           " bytes, found " + std::to_string(found) + "); copy it again, or run the job that made it again");
    }
    // A file cut between two entries looks complete, except for the missing block of zeros that ends an
    // archive.
    void check_end() const {
      if (need_end && !compressed() && end + 512 > bytes.size)
        fail("cut off after entry " + std::to_string(count) + " (no end-of-archive block at byte " +
             std::to_string(end) + "); copy it again, or run the job that made it again");
    }
    void check_entry() {
      ++count;
      const auto begin = static_cast<uint64_t>(archive_filter_bytes(archive.get(), 0));
      if (archive_entry_sparse_count(entry) > 0)
        throw Error(KINORA_ERROR_UNSUPPORTED, bytes.name + ": entry " + std::to_string(count) +
                                                  " is a sparse file; pack it without --sparse");
      const uint64_t left = bytes.size - std::min(begin, bytes.size);
      if (!compressed() && size() > left) truncated(left);
      end = begin + (size() + 511) / 512 * 512;
    }
    TarMember member() const {
      const char* name = archive_entry_pathname(entry);
      return {name ? name : "", count, static_cast<uint64_t>(archive_read_header_position(archive.get())),
              end, size()};
    }
  };
  std::unique_ptr<State> s_;  // libarchive keeps its address
};

}  // namespace kinora

KINORA_SDK_END
