#include "plugins/jobs/loading/set_files.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/io/io.hpp"
#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {
namespace {

// One file. Bytes to be kept are looked up in the cache first, if there is one.
class SetFile final : public ByteSource {
 public:
  struct About {
    std::string uri;
    uint64_t size;
    int64_t modified;  // 0: unknown
  };
  // file: null to open it when it is needed.
  SetFile(About about, std::shared_ptr<const ByteSource> file, OpenBytes open,
          std::shared_ptr<SampleCache> cache, std::shared_ptr<ReadCounts> counts)
      : about_(std::move(about)),
        open_(std::move(open)),
        cache_(std::move(cache)),
        counts_(std::move(counts)),
        file_(std::move(file)) {}

  const std::string& name() const override { return about_.uri; }
  uint64_t size() const override { return about_.size; }
  Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
    const auto file = opened();
    if (!file) return file.failure();
    auto got = (*file)->read(offset, to, size);
    if (got) counts_->bytes += *got;
    return got;
  }
  Result<uint64_t> read_kept(uint64_t offset, void* to, uint64_t size) const override {
    const uint64_t there = offset < about_.size ? std::min(size, about_.size - offset) : 0;
    if (!cache_ || there == 0) return read(offset, to, size);
    const auto name = SampleCache::name_of(about_.uri, about_.size, about_.modified, offset, there);
    if (cache_->find(name, to, there)) {
      ++counts_->cache_hits;
      counts_->cache_bytes += there;
      return there;
    }
    auto got = read(offset, to, size);
    if (got && *got == there) cache_->keep(name, to, there);
    return got;
  }

 private:
  Result<std::shared_ptr<const ByteSource>> opened() const {
    const std::scoped_lock lock(mutex_);
    if (file_) return file_;
    auto file = open_(about_.uri);
    if (file && (*file)->size() != about_.size)
      return fail(KINORA_ERROR_INVALID,
                  "{}: has {} bytes, and had {} when its folder was listed; run again, and replace no shard "
                  "meanwhile",
                  about_.uri, (*file)->size(), about_.size);
    if (file) file_ = *file;
    return file;
  }

  const About about_;
  const OpenBytes open_;
  const std::shared_ptr<SampleCache> cache_;
  const std::shared_ptr<ReadCounts> counts_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const ByteSource> file_;
};

}  // namespace

SetFiles::SetFiles(const std::string& path, std::shared_ptr<SampleCache> cache, OpenBytes open)
    : cache_(is_remote(path) ? std::move(cache) : nullptr), open_(std::move(open)) {}

Result<std::shared_ptr<const ByteSource>> SetFiles::open(std::string_view uri) const {
  SetFile::About about{std::string(uri), 0, 0};
  std::shared_ptr<const ByteSource> file;
  if (const auto stamp = cache_ ? listed(about.uri) : std::nullopt) {
    about.size = stamp->size;
    about.modified = stamp->modified;
  } else {
    auto opened = open_(uri);
    if (!opened) return opened.failure();
    file = *std::move(opened);
    about.size = file->size();
  }
  return std::shared_ptr<const ByteSource>(
      std::make_shared<SetFile>(std::move(about), std::move(file), open_, cache_, counts_));
}

std::optional<SetFiles::Stamp> SetFiles::listed(const std::string& uri) const {
  if (is_web(uri)) return of_web(uri);
  const size_t name = uri.rfind('/') + 1;
  const std::scoped_lock lock(mutex_);
  const auto [folder, is_new] = folders_.try_emplace(uri.substr(0, name));
  if (is_new) folder->second = list(folder->first);
  const auto at = folder->second.find(uri.substr(name));
  return at == folder->second.end() ? std::nullopt : std::optional(at->second);
}

std::optional<SetFiles::Stamp> SetFiles::of_web(const std::string& uri) {
  Io* io = served_io();
  const auto found = io ? io->list(uri) : fail(KINORA_ERROR_UNSUPPORTED, "no files of storages");
  if (!found || found->empty()) return std::nullopt;  // opening it says why
  return Stamp{found->front().size, found->front().modified};
}

// Empty if it cannot be listed, as without the right to do so.
SetFiles::Folder SetFiles::list(const std::string& folder) {
  Io* io = served_io();
  if (!io) return {};
  const auto entries = io->list(folder);
  if (!entries)
    log_warn("{}; so the cache does not notice a shard there that is replaced by one of the same size",
             entries.failure().message);
  Folder out;
  if (entries)
    for (const auto& entry : *entries)
      if (!entry.folder) out.emplace(entry.name, Stamp{entry.size, entry.modified});
  return out;
}

}  // namespace kinora::core
