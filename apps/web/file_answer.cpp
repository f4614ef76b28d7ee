#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include "apps/web/server.hpp"

namespace kinora::web {
namespace {

constexpr size_t kPart = 256 << 10;

struct OpenFile {
  // Nonblocking, so that a FIFO of this name holds up no one.
  explicit OpenFile(const std::string& path) : file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat about {};
    if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode))
      size = static_cast<uint64_t>(about.st_size);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (file >= 0) close(file);
  }
  int file = -1;
  uint64_t size = 0;
};

}  // namespace

std::optional<Answer> file_answer(const Request& request, const std::string& path, const std::string& type) {
  const auto file = std::make_shared<OpenFile>(path);
  if (file->size == 0) return std::nullopt;
  Answer out{.type = type, .headers = {{"Accept-Ranges", "bytes"}}};
  uint64_t from = 0, end = file->size;
  if (const auto range = range_of(request.header("range"), file->size)) {
    if (!range->fits)
      return Answer{.status = 416, .headers = {{"Content-Range", "bytes */" + std::to_string(file->size)}}};
    from = range->first;
    end = range->last + 1;
    out.status = 206;
    out.headers.emplace_back("Content-Range", "bytes " + std::to_string(from) + "-" +
                                                  std::to_string(end - 1) + "/" + std::to_string(file->size));
  }
  out.length = end - from;
  out.next = [file, from, end]() mutable {
    std::string bytes(std::min<uint64_t>(end - from, kPart), '\0');
    const ssize_t n =
        bytes.empty() ? 0 : pread(file->file, bytes.data(), bytes.size(), static_cast<off_t>(from));
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
    from += bytes.size();
    return bytes;
  };
  return out;
}

}  // namespace kinora::web
