// Reads the members of a tar archive, one after the other. Built for hostile input: memory is bounded, every
// end is checked. Needs libarchive (Debian's libarchive-dev).
#pragma once
#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <array>
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

// Plain or gzip-compressed; ustar, pax and GNU names. Files only: folders, links and devices are skipped. An
// archive ends where only zeros follow: libarchive stops at the first block of zeros, which may be a hole in
// the file. Functions throw Error, KINORA_ERROR_DATA for a damaged archive, which has no further members
// then. [owner-thread]
class TarReader {
 public:
  // need_end: an archive without its end-of-archive block counts as cut off. Without it the bytes are entries alone, so
  // zeros between them or behind the last one are damage.
  explicit TarReader(RandomBytes bytes, bool need_end = true) : s_(std::make_unique<State>()) {
    if (!s_->archive) throw std::bad_alloc();
    s_->bytes = std::move(bytes);
    s_->need_end = need_end;
    s_->finished = s_->bytes.size == 0;
    if (s_->finished && need_end)
      throw Error(KINORA_ERROR_DATA, s_->bytes.name + ": not a tar archive (empty); check the file");
    archive_read_support_format_tar(s_->archive.get());
    if (!s_->finished && s_->is_gzip()) s_->inflate();
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
    // A header and a server may say any size: memory grows with the bytes that arrive.
    out.reserve(std::min({s_->size(), s_->bytes.size, uint64_t{16} << 20}));
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
    std::unique_ptr<struct archive, int (*)(struct archive*)> inflated{nullptr, archive_read_free};
    uint64_t inflated_end = 0;      // bytes of its content so far
    uint64_t inflated_data = 0;     // end of the last of them that is not zero
    std::exception_ptr read_error;  // of the storage, carried through libarchive
    uint64_t count = 0;             // entries so far
    uint64_t end = 0;               // end offset of the last entry
    bool finished = false;

    static la_ssize_t read(struct archive* a, void* self, const void** data) {
      auto& s = *static_cast<State*>(self);
      return s.inflated ? s.read_inflated(a, data) : read_file(a, self, data);
    }
    la_ssize_t read_inflated(struct archive* a, const void** data) {
      size_t n = 0;
      la_int64_t offset = 0;
      const int status = archive_read_data_block(inflated.get(), data, &n, &offset);
      if (status == ARCHIVE_EOF) return 0;
      if (status != ARCHIVE_OK) {
        const char* text = archive_error_string(inflated.get());
        archive_set_error(a, EIO, "%s", text ? text : "gzip data is damaged");
        return -1;
      }
      const auto* bytes_of_block = static_cast<const uint8_t*>(*data);
      size_t last = n;
      while (last > 0 && bytes_of_block[last - 1] == 0) --last;
      if (last > 0) inflated_data = inflated_end + last;
      inflated_end += n;
      return static_cast<la_ssize_t>(n);
    }
    static la_ssize_t read_file(struct archive* a, void* self, const void** data) {
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
      if (s.inflated) return 0;
      const uint64_t skipped =
          std::min(s.bytes.size - s.at, static_cast<uint64_t>(std::max<la_int64_t>(n, 0)));
      s.at += skipped;
      return static_cast<la_int64_t>(skipped);
    }
    bool compressed() const { return inflated != nullptr; }
    bool is_gzip() const {
      std::array<uint8_t, 2> magic{};
      return bytes.read(0, magic.data(), magic.size()) == magic.size() && magic[0] == 0x1f &&
             magic[1] == 0x8b;
    }
    // A second reader inflates, so that the bytes behind the last entry are seen too.
    void inflate() {
      inflated.reset(archive_read_new());
      if (!inflated) throw std::bad_alloc();
      archive_read_support_format_raw(inflated.get());
      archive_read_support_filter_gzip(inflated.get());
      struct archive_entry* content = nullptr;
      if (archive_read_open2(inflated.get(), this, nullptr, read_file, nullptr, nullptr) == ARCHIVE_OK)
        archive_read_next_header(inflated.get(), &content);  // reading the content says what is wrong
    }
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
    // Throws if the archive does not end here: it is cut between two entries, or this is a hole.
    void check_end() {
      if (need_end && !compressed() && end + 512 > bytes.size)
        fail("cut off after entry " + std::to_string(count) + " (no end-of-archive block at byte " +
             std::to_string(end) + "); copy it again, or run the job that made it again");
      const uint64_t data = compressed() ? inflated_after_end() : data_after_end();
      if (data > 0 || (!need_end && count > 0 && end < bytes.size))
        fail("entry " + std::to_string(count + 1) + " is missing: zeros at byte " + std::to_string(end) +
             (data > 0 ? " and data behind them, up to byte " + std::to_string(data) : "") +
             "; copy it again, or run the job that made it again");
    }
    // Where the last byte that is not zero ends, if that is behind the last entry; else 0.
    uint64_t data_after_end() {
      uint64_t found = 0, got = 0;
      for (at = end; at < bytes.size; at += got) {
        got = bytes.read(at, block.data(), std::min<uint64_t>(block.size(), bytes.size - at));
        if (got == 0) break;
        uint64_t last = got;
        while (last > 0 && block[last - 1] == 0) --last;
        if (last > 0) found = at + last;
      }
      return found;
    }
    uint64_t inflated_after_end() {
      const void* data = nullptr;
      la_ssize_t n = 0;
      while ((n = read_inflated(archive.get(), &data)) > 0) {
      }
      if (n < 0) damaged();
      return inflated_data > end ? inflated_data : 0;
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
