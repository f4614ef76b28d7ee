#include "core/io/atomic_file.hpp"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/stat.h>

#include "core/io/fence.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// The system's error, and what the reader of the message can do about it.
Failure system_failure(int error, const char* doing, const fs::path& path) {
  const char* why = std::strerror(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return fail(KINORA_ERROR_NO_MEMORY,
                  "{}: {} failed: {}; free some space and run again, finished work is kept", path.string(),
                  doing, why);
    case EACCES:
    case EPERM:
    case EROFS:
      return fail(KINORA_ERROR_IO,
                  "{}: {} failed: {}; make the folder writable or choose another output folder",
                  path.string(), doing, why);
    case ENOENT:
      return fail(KINORA_ERROR_NOT_FOUND, "{}: {} failed: {}; its folder does not exist", path.string(),
                  doing, why);
    default:
      return fail(KINORA_ERROR_IO, "{}: {} failed: {}", path.string(), doing, why);
  }
}

std::string host_name() {
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

fs::path folder_of(const fs::path& name) {
  return name.has_parent_path() ? name.parent_path() : fs::path(".");
}

Status rename_new(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EEXIST)
    return fail(KINORA_ERROR_INVALID, "{} exists already; remove it or choose another name", to.string());
  if (errno != EINVAL && errno != ENOSYS) return system_failure(errno, "renaming to it", to);
  // A file system without RENAME_NOREPLACE: a plain rename refuses a folder that is not empty.
  if (rename(from.c_str(), to.c_str()) == 0) return {};
  return system_failure(errno, "renaming to it", to);
}

Status put_in_place(const fs::path& from, const fs::path& to, bool replace) {
  if (!replace) return rename_new(from, to);
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return {};
  if (errno == ENOENT) return rename_new(from, to);
  if (errno != EINVAL && errno != ENOSYS) return system_failure(errno, "replacing it", to);
  // A file system that cannot exchange names: the name is missing for a moment.
  const fs::path aside = temporary_name(to);
  if (rename(to.c_str(), aside.c_str()) != 0) return system_failure(errno, "replacing it", to);
  if (auto status = rename_new(from, to); !status) return status;
  std::error_code ignored;
  fs::remove_all(aside, ignored);
  return {};
}

}  // namespace

fs::path temporary_name(const fs::path& final_name) {
  static std::atomic<uint64_t> count{0};
  return final_name.parent_path() /
         fmt::format(".{}.tmp-{}-{}-{}", final_name.filename().string(), host_name(), getpid(), ++count);
}

// storage/file names its own without the machine: a job's folder has one writer at a time.
bool is_abandoned(const std::string& name) {
  const std::string mark = ".tmp-" + host_name() + "-", of_storage = ".kinora-tmp-";
  const bool is_stored = name.starts_with(of_storage);
  const auto at = is_stored ? 0 : name.rfind(mark);
  if (name.empty() || name[0] != '.' || at == std::string::npos) return false;
  int pid = 0;
  const char* begin = name.data() + at + (is_stored ? of_storage : mark).size();
  std::from_chars(begin, name.data() + name.size(), pid);
  return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

Status flush_folder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_failure(errno, "opening", folder);
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  if (error && error != EINVAL)
    return system_failure(error, "flushing", folder);  // EINVAL: cannot be flushed here
  return {};
}

Result<AtomicFile> AtomicFile::create(const fs::path& final_name) {
  AtomicFile made;
  const fs::path temporary = temporary_name(final_name);
  made.fd_ = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (made.fd_ < 0) return system_failure(errno, "creating", final_name);
  made.final_ = final_name;
  made.temporary_ = temporary;
  return made;
}

AtomicFile::AtomicFile(AtomicFile&& o) noexcept
    : final_(std::move(o.final_)), temporary_(std::move(o.temporary_)), fd_(std::exchange(o.fd_, -1)) {
  o.temporary_.clear();
}

AtomicFile& AtomicFile::operator=(AtomicFile&& o) noexcept {
  std::swap(final_, o.final_);
  std::swap(temporary_, o.temporary_);
  std::swap(fd_, o.fd_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status AtomicFile::write(const void* data, uint64_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd_, at, std::min<uint64_t>(size, uint64_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_failure(errno, "writing", final_);
    at += n;
    size -= static_cast<uint64_t>(n);
  }
  return {};
}

Status AtomicFile::commit(bool flushes_folder) {
  const int error = fsync(fd_) == 0 ? 0 : errno;
  const bool closed = close(std::exchange(fd_, -1)) == 0;
  if (error) return system_failure(error, "flushing", final_);
  if (!closed) return system_failure(errno, "closing", final_);
  if (auto status = may_publish(final_); !status) return status;
  if (rename(temporary_.c_str(), final_.c_str()) != 0) return system_failure(errno, "renaming to it", final_);
  temporary_.clear();
  return flushes_folder ? flush_folder(folder_of(final_)) : Status();
}

Status write_file_atomically(const fs::path& name, std::string_view contents) {
  auto file = AtomicFile::create(name);
  if (!file) return file.failure();
  if (auto status = file->write(contents); !status) return status;
  return file->commit();
}

Result<AtomicFolder> AtomicFolder::create(const fs::path& given) {
  AtomicFolder made;
  const fs::path final_name = given.has_filename() ? given : given.parent_path();  // "packed/" is "packed"
  const fs::path temporary = temporary_name(final_name);
  if (mkdir(temporary.c_str(), 0755) != 0) return system_failure(errno, "creating", final_name);
  made.final_ = final_name;
  made.temporary_ = temporary;
  return made;
}

AtomicFolder::AtomicFolder(AtomicFolder&& o) noexcept
    : final_(std::move(o.final_)), temporary_(std::move(o.temporary_)) {
  o.temporary_.clear();
}

AtomicFolder& AtomicFolder::operator=(AtomicFolder&& o) noexcept {
  std::swap(final_, o.final_);
  std::swap(temporary_, o.temporary_);
  return *this;
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

Status AtomicFolder::commit(bool replace) {
  if (auto status = flush_folder(temporary_); !status) return status;
  if (auto status = may_publish(final_); !status) return status;
  if (auto status = put_in_place(temporary_, final_, replace); !status) return status;
  std::error_code ignored;
  fs::remove_all(std::exchange(temporary_, {}), ignored);  // the replaced contents
  return flush_folder(folder_of(final_));
}

}  // namespace kinora::core
