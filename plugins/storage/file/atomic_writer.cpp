#include "plugins/storage/file/atomic_writer.hpp"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

#include "plugins/storage/file/local_path.hpp"

namespace kinora::file {
namespace {

constexpr const char* kWriting = "cannot be written";

// Makes the names in a folder survive a power failure. If a file system cannot do it (EINVAL), it is
// skipped.
void flush_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw system_error(folder + "/", kWriting, errno);
  const int status = ::fsync(descriptor), error = errno;
  ::close(descriptor);
  if (status != 0 && error != EINVAL && error != EROFS) throw system_error(folder + "/", kWriting, error);
}

void make_folders(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) throw system_error(folder + "/", kWriting, ENOTDIR);
    return;
  }
  if (errno != ENOENT) throw system_error(folder + "/", kWriting, errno);
  const std::string parent = folder_of(folder);
  if (parent != folder) make_folders(parent);
  if (::mkdir(folder.c_str(), 0777) != 0) {
    if (errno == EEXIST) return;  // another thread was faster
    throw system_error(folder, "the folder cannot be made", errno);
  }
  flush_folder(parent);
}

}  // namespace

std::string AtomicWriter::temporary_in(const std::string& folder) {
  static std::atomic<uint64_t> next{0};
  return folder + "/" + std::string(kTemporary) + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

AtomicWriter::AtomicWriter(const std::string& path) : path_(path) {
  const std::string folder = folder_of(path);
  if (path.ends_with('/')) throw system_error(path, kWriting, EISDIR);
  make_folders(folder);
  do {  // a name that exists was left by an earlier process with the same id
    temporary_ = temporary_in(folder);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor_ < 0) throw system_error(path_, kWriting, errno);
}

AtomicWriter::~AtomicWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicWriter::append(const void* data, uint64_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t wrote = ::write(descriptor_, at, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw system_error(path_, kWriting, errno);
    at += wrote;
    size -= static_cast<uint64_t>(wrote);
  }
}

void AtomicWriter::flush() {
  if (::fsync(descriptor_) != 0) throw system_error(path_, kWriting, errno);
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 && errno != EINTR)
    throw system_error(path_, kWriting, errno);  // a network file system reports errors here
}

void AtomicWriter::commit() {
  flush();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw system_error(path_, kWriting, errno);
  temporary_.clear();
  flush_folder(folder_of(path_));
}

bool AtomicWriter::commit_new() {
  flush();
  if (::link(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    // NFS may answer EEXIST to a link that it has made, when it was asked twice.
    struct stat info {};
    const bool is_ours = ::stat(temporary_.c_str(), &info) == 0 && info.st_nlink > 1;
    if (!is_ours && error == EEXIST) return false;
    if (!is_ours && (error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK))
      throw Error(
          KINORA_ERROR_UNSUPPORTED,
          path_ + ": this disk has no hard links, by which a file is created once; choose another disk");
    if (!is_ours) throw system_error(path_, kWriting, error);
  }
  flush_folder(folder_of(path_));
  return true;
}

}  // namespace kinora::file
