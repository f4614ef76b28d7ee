#include "apps/serve/disk.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <system_error>
#include <unistd.h>

#include "apps/web/full_disk.hpp"

namespace kinora::serve {
namespace {

constexpr size_t kRoom = 64 << 10;  // bytes, more than a change of the list takes

}  // namespace

bool is_disk_full(const std::filesystem::path& folder) {
  std::string name = (folder / "room-XXXXXX").string();
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return web::is_disk_full(errno);
  unlink(name.c_str());
  const std::string bytes(kRoom, 'x');
  int error = 0;
  for (size_t done = 0; done < bytes.size() && error == 0;) {
    const ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
    if (n >= 0)
      done += static_cast<size_t>(n);
    else if (errno != EINTR)
      error = errno;
  }
  if (close(file) != 0 && error == 0) error = errno;
  return web::is_disk_full(error);
}

bool is_of_full_disk(const std::exception& e, const std::filesystem::path& folder) {
  if (const auto* of = dynamic_cast<const std::system_error*>(&e);
      of && web::is_disk_full(of->code().value()))
    return true;
  if (const auto* of = dynamic_cast<const Error*>(&e); of && of->code() == KINORA_ERROR_NO_MEMORY)
    return true;
  return is_disk_full(folder);
}

ApiError disk_full(const std::filesystem::path& folder) {
  ApiError out(507, "the disk of " + folder.string() + " is full; delete videos or make room, then try again",
               "disk_full");
  out.headers = {{"x-should-retry", "false"}};
  return out;
}

}  // namespace kinora::serve
