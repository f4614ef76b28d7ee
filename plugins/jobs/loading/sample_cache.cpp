#include "plugins/jobs/loading/sample_cache.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/byte_source.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

constexpr uint64_t kDigest = 64;  // hexadecimal digits of SHA-256
constexpr uint64_t kParts = 16;   // of the limit: what is written between two looks at the folder

bool is_name(const std::string& text) {
  return text.size() == kDigest && text.find_first_not_of("0123456789abcdef") == text.npos;
}

struct KeptFile {
  std::filesystem::file_time_type used;
  uint64_t size;
  std::filesystem::path file;
};

// Adds the cache's own files of one subfolder; nothing else there is ever touched.
void list_kept(const std::filesystem::path& subfolder, std::vector<KeptFile>& out) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(subfolder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code gone, no_time;  // another process may have removed it
    if (is_abandoned(name)) std::filesystem::remove(at->path(), gone);
    if (!is_name(name)) continue;
    const uint64_t size = at->file_size(gone);
    const auto used = at->last_write_time(no_time);
    if (!gone && !no_time) out.push_back({used, size, at->path()});
  }
}

constexpr int kSubfolders = 256;
std::string subfolder(int i) { return fmt::format("{:02x}", i); }

// Makes a folder that no one else may write to, whatever the umask. One that is there stays as it is.
std::error_code make_own(const std::filesystem::path& folder) {
  using std::filesystem::perms;
  std::error_code error, ignored;
  if (std::filesystem::create_directories(folder, error))
    std::filesystem::permissions(folder, perms::group_write | perms::others_write,
                                 std::filesystem::perm_options::remove, ignored);
  return error;
}

}  // namespace

SampleCache::SampleCache(std::filesystem::path folder, uint64_t limit)
    : folder_(std::move(folder)), limit_(limit), written_(limit / kParts) {
  make_own(folder_);
  // The digest of an entry finds damage, not another author: who can write here decides what is read.
  PassedFolders passed;
  for (int i = 0; i < kSubfolders; ++i)
    if (const auto why = why_untrusted(folder_ / subfolder(i), &passed); !why.empty())
      throw Error(KINORA_ERROR_INVALID, "cache: what is read from it must be yours: " + why);
}

std::string SampleCache::name_of(std::string_view uri, uint64_t size, int64_t modified, uint64_t offset,
                                 uint64_t length) {
  return sha256(fmt::format("{}\n{} {} {} {}", uri, size, modified, offset, length));
}

std::filesystem::path SampleCache::file_of(const std::string& name) const {
  return folder_ / name.substr(0, 2) / name;
}

bool SampleCache::find(const std::string& name, void* to, uint64_t size) const {
  const auto file = file_of(name);
  const auto source = open_bytes(file.string());
  if (!source || (*source)->size() != size + kDigest) return false;
  std::string digest(kDigest, '\0');
  const auto bytes = (*source)->read(0, to, size), rest = (*source)->read(size, digest.data(), kDigest);
  if (!bytes || *bytes != size || !rest || *rest != kDigest) return false;
  if (sha256({static_cast<const char*>(to), size}) != digest) return false;
  std::error_code ignored;
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now(), ignored);
  return true;
}

std::optional<std::string> SampleCache::find(const std::string& name) const {
  const auto source = open_bytes(file_of(name).string());
  const uint64_t size = source ? (*source)->size() : 0;
  if (size < kDigest || size > limit_) return std::nullopt;
  std::string out(size - kDigest, '\0');
  if (!find(name, out.data(), out.size())) return std::nullopt;
  return out;
}

void SampleCache::keep(const std::string& name, const void* bytes, uint64_t size) {
  if (is_broken_) return;
  const auto status = write(name, {static_cast<const char*>(bytes), size});
  if (!status && !is_broken_.exchange(true))
    log_warn("{}; nothing more is kept in this cache", status.failure().message);
  if ((written_ += size + kDigest) < limit_ / kParts || is_trimming_.exchange(true)) return;
  written_ = 0;
  trim();
  is_trimming_ = false;
}

Status SampleCache::write(const std::string& name, std::string_view bytes) const {
  const auto file = file_of(name);
  if (const auto error = make_own(file.parent_path()))
    return fail(KINORA_ERROR_IO, "{}: cannot be created ({}); check `cache` and its permissions",
                file.parent_path().string(), error.message());
  const auto done = [&]() -> Status {
    auto out = AtomicFile::create(file);
    if (!out) return out.failure();
    if (auto status = out->write(bytes); !status) return status;
    if (auto status = out->write(sha256(bytes)); !status) return status;
    return out->commit(/*flush=*/false);
  }();
  // The folder was removed after it was made.
  return !done && done.failure().code == KINORA_ERROR_NOT_FOUND ? Status() : done;
}

void SampleCache::trim() const {
  std::vector<KeptFile> files;
  for (int i = 0; i < kSubfolders; ++i) list_kept(folder_ / subfolder(i), files);
  uint64_t total = 0;
  for (const auto& one : files) total += one.size;
  if (total <= limit_) return;
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  for (const auto& one : files) {
    if (total <= limit_ - limit_ / kParts) break;
    std::error_code gone;
    std::filesystem::remove(one.file, gone);
    total -= one.size;
  }
}

}  // namespace kinora::core
