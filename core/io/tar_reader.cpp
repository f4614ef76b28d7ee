#include "core/io/tar_reader.hpp"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <cerrno>

namespace kinora::core {

struct TarReader::State {
  std::shared_ptr<const ByteSource> source;
  bool need_end = true;
  std::unique_ptr<struct archive, int (*)(struct archive*)> archive{archive_read_new(), archive_read_free};
  struct archive_entry* entry = nullptr;
  uint64_t at = 0;  // offset of the next block for libarchive
  std::vector<uint8_t> block = std::vector<uint8_t>(64 * 1024);
  std::optional<Failure> read_failure;
  uint64_t count = 0;  // entries so far
  uint64_t end = 0;    // end offset of the last entry
  bool finished = false;

  static la_ssize_t read(struct archive* a, void* self, const void** data) {
    auto& s = *static_cast<State*>(self);
    const auto got = s.source->read(s.at, s.block.data(), s.block.size());
    if (!got) {
      s.read_failure = got.failure();
      archive_set_error(a, EIO, "reading failed");
      return -1;
    }
    s.at += *got;
    *data = s.block.data();
    return static_cast<la_ssize_t>(*got);
  }
  static la_int64_t skip(struct archive*, void* self, la_int64_t n) {
    auto& s = *static_cast<State*>(self);
    const uint64_t skipped =
        std::min(s.source->size() - s.at, static_cast<uint64_t>(std::max<la_int64_t>(n, 0)));
    s.at += skipped;
    return static_cast<la_int64_t>(skipped);
  }
  bool compressed() const { return archive_filter_code(archive.get(), 0) != ARCHIVE_FILTER_NONE; }
  Failure damaged() const;
  Failure truncated(uint64_t found) const;
  std::optional<Failure> check_end() const;
  TarMember member() const;
};

// The message of libarchive or of the storage.
Failure TarReader::State::damaged() const {
  if (read_failure) return *read_failure;
  const char* text = archive_error_string(archive.get());
  if (count == 0)
    return fail(KINORA_ERROR_DATA, "{}: not a tar archive ({}); check the file", source->name(),
                text ? text : "empty");
  return fail(KINORA_ERROR_DATA,
              "{}: entry {} is damaged ({}); copy it again, or run the job that made it again",
              source->name(), count + 1, text ? text : "unknown error");
}

Failure TarReader::State::truncated(uint64_t found) const {
  return fail(KINORA_ERROR_DATA,
              "{}: entry {} is truncated (expected {} bytes, found {}); copy it again, or run the job that "
              "made it again",
              source->name(), count, archive_entry_size(entry), found);
}

// A file cut between two entries looks complete, except for the missing block of zeros that ends an archive.
std::optional<Failure> TarReader::State::check_end() const {
  if (!need_end || compressed() || end + 512 <= source->size()) return std::nullopt;
  return fail(KINORA_ERROR_DATA,
              "{}: cut off after entry {} (no end-of-archive block at byte {}); copy it again, or run the "
              "job that made it again",
              source->name(), count, end);
}

TarMember TarReader::State::member() const {
  const char* name = archive_entry_pathname(entry);
  return {name ? name : "", count, static_cast<uint64_t>(archive_read_header_position(archive.get())), end,
          static_cast<uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0))};
}

TarReader::TarReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TarReader::TarReader(TarReader&&) noexcept = default;
TarReader& TarReader::operator=(TarReader&&) noexcept = default;
TarReader::~TarReader() = default;

Result<TarReader> TarReader::open(std::shared_ptr<const ByteSource> source, bool need_end) {
  auto state = std::make_unique<State>();
  if (!state->archive) return Failure{KINORA_ERROR_NO_MEMORY, "out of memory"};
  state->source = std::move(source);
  state->need_end = need_end;
  if (state->source->size() == 0 && need_end)
    return fail(KINORA_ERROR_DATA, "{}: not a tar archive (empty); check the file", state->source->name());
  archive_read_support_format_tar(state->archive.get());
  archive_read_support_filter_gzip(state->archive.get());
  if (state->source->size() > 0 && archive_read_open2(state->archive.get(), state.get(), nullptr, State::read,
                                                      State::skip, nullptr) != ARCHIVE_OK)
    return state->damaged();
  state->finished = state->source->size() == 0;
  return TarReader(std::move(state));
}

bool TarReader::seekable() const { return !state_->compressed(); }

Result<std::optional<TarMember>> TarReader::next() {
  State& s = *state_;
  while (!s.finished) {
    const int status = archive_read_next_header(s.archive.get(), &s.entry);
    if (status == ARCHIVE_EOF) {
      s.finished = true;
      if (auto cut = s.check_end()) return *std::move(cut);
      break;
    }
    // A warning means a name that the locale cannot show; its bytes are right.
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
      s.finished = true;
      return s.damaged();
    }
    ++s.count;
    const auto begin = static_cast<uint64_t>(archive_filter_bytes(s.archive.get(), 0));
    const auto size = static_cast<uint64_t>(std::max<la_int64_t>(archive_entry_size(s.entry), 0));
    if (archive_entry_sparse_count(s.entry) > 0) {
      s.finished = true;
      return fail(KINORA_ERROR_UNSUPPORTED, "{}: entry {} is a sparse file; pack it without --sparse",
                  s.source->name(), s.count);
    }
    const uint64_t left = s.source->size() - std::min(begin, s.source->size());
    if (!s.compressed() && size > left) {
      s.finished = true;
      return s.truncated(left);
    }
    s.end = begin + (size + 511) / 512 * 512;
    if (archive_entry_filetype(s.entry) == AE_IFREG && !archive_entry_hardlink(s.entry))
      return std::optional(s.member());
  }
  return std::optional<TarMember>();
}

Result<std::vector<uint8_t>> TarReader::content(uint64_t limit) {
  State& s = *state_;
  const auto size = static_cast<uint64_t>(std::max<la_int64_t>(archive_entry_size(s.entry), 0));
  if (size > limit)
    return fail(KINORA_ERROR_DATA,
                "{}: entry {} has {} bytes where at most {} may come; raise the limit if that is right",
                s.source->name(), s.count, size, limit);
  std::vector<uint8_t> out;
  out.reserve(std::min(size, s.source->size()));  // a hostile size must not allocate memory
  const void* data = nullptr;
  size_t n = 0;
  la_int64_t offset = 0;
  int status = ARCHIVE_OK;
  while ((status = archive_read_data_block(s.archive.get(), &data, &n, &offset)) == ARCHIVE_OK) {
    const auto at = static_cast<uint64_t>(offset);
    if (at != out.size() || n > size - at) return s.damaged();
    const auto* bytes = static_cast<const uint8_t*>(data);
    out.insert(out.end(), bytes, bytes + n);
  }
  if (out.size() == size && status == ARCHIVE_EOF) return out;
  if (s.read_failure) return *s.read_failure;
  return s.truncated(out.size());
}

}  // namespace kinora::core
