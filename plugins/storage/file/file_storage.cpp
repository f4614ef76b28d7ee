#include "plugins/storage/file/file_storage.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include <sys/stat.h>

#include "kinora/plugin.hpp"
#include "kinora/storage.hpp"
#include "plugins/storage/file/local_path.hpp"

namespace kinora::file {
namespace {

// Temporary files are in the folder of the final file, so that the last step is a rename on one device:
// ".kinora-tmp-PID-N". One that a killed process left behind can be removed at any time.
constexpr std::string_view kTemporary = ".kinora-tmp-";

// A new file that appears under its name complete and flushed to the device, or never.
class AtomicWriter final : public StorageWriter {
 public:
  explicit AtomicWriter(const std::string& path);  // creates missing folders
  AtomicWriter(const AtomicWriter&) = delete;
  AtomicWriter& operator=(const AtomicWriter&) = delete;
  ~AtomicWriter() override;
  void append(const void* data, uint64_t size) override;
  void commit() override;

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};

constexpr const char* kDoing = "cannot be written";

// Makes the names in a folder survive a power failure. If a file system cannot do it (EINVAL), it is
// skipped.
void flush_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw system_error(folder + "/", kDoing, errno);
  const int status = ::fsync(descriptor), error = errno;
  ::close(descriptor);
  if (status != 0 && error != EINVAL && error != EROFS) throw system_error(folder + "/", kDoing, error);
}

void make_folders(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) throw system_error(folder + "/", kDoing, ENOTDIR);
    return;
  }
  if (errno != ENOENT) throw system_error(folder + "/", kDoing, errno);
  const std::string parent = folder_of(folder);
  if (parent != folder) make_folders(parent);
  if (::mkdir(folder.c_str(), 0777) != 0) {
    if (errno == EEXIST) return;  // another thread was faster
    throw system_error(folder, "the folder cannot be made", errno);
  }
  flush_folder(parent);
}

std::string temporary_in(const std::string& folder) {
  static std::atomic<uint64_t> next{0};
  return folder + "/" + std::string(kTemporary) + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

AtomicWriter::AtomicWriter(const std::string& path) : path_(path) {
  const std::string folder = folder_of(path);
  if (path.ends_with('/')) throw system_error(path, kDoing, EISDIR);
  make_folders(folder);
  do {  // a name that exists was left by an earlier process with the same id
    temporary_ = temporary_in(folder);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor_ < 0) throw system_error(path_, kDoing, errno);
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
    if (wrote < 0) throw system_error(path_, kDoing, errno);
    at += wrote;
    size -= static_cast<uint64_t>(wrote);
  }
}

void AtomicWriter::commit() {
  if (::fsync(descriptor_) != 0) throw system_error(path_, kDoing, errno);
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 && errno != EINTR)
    throw system_error(path_, kDoing, errno);  // a network file system reports errors here
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw system_error(path_, kDoing, errno);
  temporary_.clear();
  flush_folder(folder_of(path_));
}

class FileReader final : public StorageReader {
 public:
  explicit FileReader(std::string path) : path_(std::move(path)) {
    do
      descriptor_ =
          ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for its writer
    while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) throw system_error(path_, kDoing, errno);
    struct stat info {};
    const int error = ::fstat(descriptor_, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    if (error == 0 && S_ISREG(info.st_mode)) {
      size_ = static_cast<uint64_t>(info.st_size);
      return;
    }
    ::close(descriptor_);
    if (error != 0) throw system_error(path_, kDoing, error);
    throw Error(KINORA_ERROR_INVALID,
                path_ + ": cannot be read: it is a pipe or device without random access; copy it to a file");
  }
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;
  ~FileReader() override { ::close(descriptor_); }
  uint64_t size() const override { return size_; }

  uint64_t read(uint64_t offset, void* to, uint64_t size) override {
    constexpr uint64_t kMost = uint64_t{1} << 30;  // one call reads at most 2 GiB minus a page
    uint64_t got = 0;
    while (got < size && offset + got <= INT64_MAX) {
      const ssize_t n = ::pread(descriptor_, static_cast<char*>(to) + got, std::min(size - got, kMost),
                                static_cast<off_t>(offset + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw system_error(path_, kDoing, errno);
      if (n == 0) break;
      got += static_cast<uint64_t>(n);
    }
    return got;
  }

 private:
  static constexpr const char* kDoing = "cannot be read";
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

struct CloseFolder {
  void operator()(DIR* d) const { ::closedir(d); }
};

bool is_hidden_from_lists(std::string_view name) {
  return name == "." || name == ".." || name.starts_with(kTemporary);
}

// Whether it has vanished since its name was read. A broken link, and an entry hidden by an unavailable disk
// or a missing permission, exists but cannot be examined now.
bool is_gone(int folder, const char* name) {
  struct stat info {};
  return ::fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

std::string with_slash(const std::string& folder) { return folder.ends_with('/') ? folder : folder + "/"; }

}  // namespace

std::unique_ptr<StorageReader> FileStorage::open(std::string_view path) {
  return std::make_unique<FileReader>(local_path(path));
}

std::unique_ptr<StorageWriter> FileStorage::begin(std::string_view path) {
  return std::make_unique<AtomicWriter>(local_path(path));
}

int32_t FileStorage::list(std::string_view path, const Each& each) {
  std::string folder = local_path(path);
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const std::unique_ptr<DIR, CloseFolder> open(::opendir(folder.c_str()));
  if (!open) throw system_error(with_slash(folder), "cannot be listed", errno);
  for (;;) {
    errno = 0;
    const dirent* found = ::readdir(open.get());
    if (!found && errno != 0) throw system_error(with_slash(folder), "cannot be listed", errno);
    if (!found) return KINORA_OK;
    const std::string_view name = found->d_name;
    if (is_hidden_from_lists(name)) continue;
    struct stat info {};
    if (::fstatat(::dirfd(open.get()), found->d_name, &info, 0) != 0) {
      if (is_gone(::dirfd(open.get()), found->d_name)) continue;
      info = {};
      if (found->d_type == DT_DIR) info.st_mode = S_IFDIR;
    }
    const bool is_folder = S_ISDIR(info.st_mode);
    const kinora_entry entry{sizeof(kinora_entry), is_folder ? 1u : 0u, str(name),
                             is_folder ? 0 : static_cast<uint64_t>(info.st_size),
                             int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
    if (const int32_t status = each(entry); status != KINORA_OK) return status;
  }
}

void FileStorage::remove(std::string_view path) {
  const std::string file = local_path(path);
  if (::unlink(file.c_str()) != 0) throw system_error(file, "cannot be removed", errno);
}

KINORA_COMPONENT(FileStorage)
KINORA_PLUGIN(FileStorage)

}  // namespace kinora::file
