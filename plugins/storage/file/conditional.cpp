// Small files that are written only as long as no other process has written them.
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "plugins/storage/file/atomic_writer.hpp"
#include "plugins/storage/file/file_storage.hpp"
#include "plugins/storage/file/local_path.hpp"

namespace kinora::file {
namespace {

// A process that stands still may hold a lock for as long as it likes: others report that instead of waiting.
constexpr std::chrono::milliseconds kLongestLock(900), kLockAgain(2);

// FNV-1a (Fowler, Noll, Vo) with 64 bits, and the size.
std::string tag_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%016llx-%zu", static_cast<unsigned long long>(hash), bytes.size());
  return text.data();
}

// An open file; conditional writers replace files by rename, so what is open does not change.
class SmallFile {
 public:
  SmallFile(const std::string& path, int flags) : path_(path) {
    do descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK);
    while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0 && errno != ENOENT) throw system_error(path, "cannot be opened", errno);
  }
  SmallFile(const SmallFile&) = delete;
  SmallFile& operator=(const SmallFile&) = delete;
  ~SmallFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  bool exists() const { return descriptor_ >= 0; }

  std::string bytes() const {
    std::string out(KINORA_STORAGE_SMALL + 1, '\0');
    size_t got = 0;
    while (got < out.size()) {
      const ssize_t n = ::pread(descriptor_, out.data() + got, out.size() - got, static_cast<off_t>(got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw system_error(path_, "cannot be read", errno);
      if (n == 0) break;
      got += static_cast<size_t>(n);
    }
    if (got > KINORA_STORAGE_SMALL)
      throw Error(KINORA_ERROR_UNSUPPORTED,
                  path_ + ": it is larger than " + std::to_string(KINORA_STORAGE_SMALL) + " bytes");
    out.resize(got);
    return out;
  }

  void lock() const {
    const auto end = std::chrono::steady_clock::now() + kLongestLock;
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK)
        throw Error(
            KINORA_ERROR_UNSUPPORTED,
            path_ +
                ": files on this disk cannot be locked (flock), so that several processes cannot share "
                "work here; choose another disk, or mount it with locks");
      if (std::chrono::steady_clock::now() > end)
        throw Error(KINORA_ERROR_IO, path_ + ": another process has locked it for a second; try again");
      std::this_thread::sleep_for(kLockAgain);
    }
  }

  // Whether the file still has its name.
  bool is_in_place() const {
    struct stat open {
    }, named{};
    return ::fstat(descriptor_, &open) == 0 && ::stat(path_.c_str(), &named) == 0 &&
           open.st_dev == named.st_dev && open.st_ino == named.st_ino;
  }

 private:
  const std::string path_;
  int descriptor_ = -1;
};

// The file of this name with this tag, locked; nothing: there is none, or it has another tag.
std::unique_ptr<SmallFile> locked(const std::string& path, std::string_view tag) {
  for (;;) {
    auto file = std::make_unique<SmallFile>(path, O_RDWR);  // a lock over NFS needs to write
    if (!file->exists()) return nullptr;
    file->lock();
    if (!file->is_in_place()) continue;  // its last owner has replaced or removed it
    if (tag_of(file->bytes()) != tag) return nullptr;
    return file;
  }
}

}  // namespace

std::optional<std::string> FileStorage::put_if(std::string_view path, std::string_view bytes,
                                               std::string_view tag) {
  const std::string file = local_path(path);
  if (bytes.size() > KINORA_STORAGE_SMALL)
    throw Error(KINORA_ERROR_INVALID, file + ": more than " + std::to_string(KINORA_STORAGE_SMALL) +
                                          " bytes cannot be written on a condition");
  const auto lock = tag.empty() ? nullptr : locked(file, tag);
  if (!tag.empty() && !lock) return std::nullopt;
  AtomicWriter writer(file);
  writer.append(bytes.data(), bytes.size());
  if (!lock && !writer.commit_new()) return std::nullopt;
  if (lock) writer.commit();
  return tag_of(bytes);
}

SmallObject FileStorage::read_small(std::string_view path) {
  const std::string name = local_path(path);
  const SmallFile file(name, O_RDONLY);
  if (!file.exists()) throw system_error(name, "cannot be read", ENOENT);
  SmallObject out{file.bytes(), ""};
  out.tag = tag_of(out.bytes);
  return out;
}

bool FileStorage::remove_if(std::string_view path, std::string_view tag) {
  const std::string file = local_path(path);
  const auto lock = locked(file, tag);
  if (!lock) return false;
  if (::unlink(file.c_str()) != 0) throw system_error(file, "cannot be removed", errno);
  return true;
}

}  // namespace kinora::file
