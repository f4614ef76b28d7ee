#include "core/io/file_locks.hpp"

#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>

#include "core/base/log.hpp"

namespace kinora::core {

bool means_no_locks(int error) {
  constexpr int kNotSupported = 524;  // the kernel's ENOTSUPP, which no header of programs names
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == kNotSupported;
}

bool can_lock(const std::filesystem::path& file) {
  int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  const bool writes = descriptor >= 0;
  if (!writes) descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return true;
  struct flock lock {};
  lock.l_type = writes ? F_WRLCK : F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0x40000000;  // a byte that SQLite locks too, behind the data of most files
  lock.l_len = 1;
  const bool out = ::fcntl(descriptor, F_SETLK, &lock) == 0 || !means_no_locks(errno);
  ::close(descriptor);
  return out;
}

void say_without_locks(const std::filesystem::path& folder) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::scoped_lock lock(mutex);
  if (said.size() < 1000 && said.insert(folder.string()).second)
    log_warn(
        "{}: files on this disk cannot be locked, so nothing is; let no other program write here at the same "
        "time",
        folder.string());
}

}  // namespace kinora::core
