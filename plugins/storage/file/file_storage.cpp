#include "plugins/storage/file/file_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include <sys/stat.h>

#include "kinora/plugin.hpp"
#include "kinora/storage.hpp"
#include "plugins/storage/file/atomic_writer.hpp"
#include "plugins/storage/file/local_path.hpp"

namespace kinora::file {
namespace {

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
  return name == "." || name == ".." || AtomicWriter::is_temporary(name);
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
