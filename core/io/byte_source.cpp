#include "core/io/byte_source.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

#include <sys/stat.h>

#include "core/base/regular_file.hpp"
#include "kinora/io.hpp"

namespace kinora::core {
namespace {

class LocalFile final : public ByteSource {
 public:
  LocalFile(std::string name, int descriptor, uint64_t size)
      : name_(std::move(name)), descriptor_(descriptor), size_(size) {}
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;
  ~LocalFile() override { ::close(descriptor_); }
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
    uint64_t got = 0;
    while (got < size && offset < size_) {
      const ssize_t n =
          ::pread(descriptor_, static_cast<char*>(to) + got, size - got, static_cast<off_t>(offset + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        return fail(KINORA_ERROR_IO, "{}: reading failed ({}); check the disk", name_, std::strerror(errno));
      if (n == 0) break;
      got += static_cast<uint64_t>(n);
    }
    return got;
  }

 private:
  std::string name_;
  int descriptor_;
  uint64_t size_;
};

class Remote final : public ByteSource {
 public:
  explicit Remote(std::string_view uri) : name_(uri), reader_(uri) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return static_cast<uint64_t>(reader_.size()); }
  Result<uint64_t> read(uint64_t offset, void* to, uint64_t size) const override {
    return catching([&] { return reader_.read(offset, to, size); });
  }

 private:
  std::string name_;
  Reader reader_;
};

// Appends up to `size` bytes, fewer only at the end.
template <class Bytes>
Status read_growing(const ByteSource& source, uint64_t offset, uint64_t size, bool keep, Bytes& out) {
  constexpr uint64_t kPiece = uint64_t{16} << 20;
  for (uint64_t done = 0; done < size;) {
    const uint64_t wanted = std::min(kPiece, size - done);
    out.resize(done + wanted);
    const auto got = keep ? source.read_kept(offset + done, out.data() + done, wanted)
                          : source.read(offset + done, out.data() + done, wanted);
    if (!got) return got.failure();
    done += *got;
    if (*got < wanted) {
      out.resize(done);
      break;
    }
  }
  return {};
}

}  // namespace

Status check_regular_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return {};
  return no_regular_file(path, info.st_mode);
}

Result<std::shared_ptr<const ByteSource>> open_bytes(std::string_view uri) {
  if (uri.find("://") != std::string_view::npos)
    return catching([&]() -> std::shared_ptr<const ByteSource> { return std::make_shared<Remote>(uri); });
  std::string path(uri);
  const auto descriptor = open_regular_file(path);
  if (!descriptor) return descriptor.failure();
  struct stat info {};
  if (::fstat(*descriptor, &info) != 0) {
    const int error = errno;
    ::close(*descriptor);
    return fail(KINORA_ERROR_IO, "{}: its size is unknown ({}); check the disk", path, std::strerror(error));
  }
  return std::shared_ptr<const ByteSource>(
      std::make_shared<LocalFile>(std::move(path), *descriptor, static_cast<uint64_t>(info.st_size)));
}

Result<std::string> read_text(std::string_view uri, uint64_t limit) {
  const auto source = open_bytes(uri);
  return source ? read_text(**source, limit) : source.failure();
}

Result<std::string> read_text(const ByteSource& source, uint64_t limit) {
  const uint64_t size = source.size();
  if (size > limit)
    return fail(KINORA_ERROR_DATA, "{}: {} bytes where at most {} are expected; is it the right file?",
                source.name(), size, limit);
  std::string text;
  if (const auto status = read_growing(source, 0, size, /*keep=*/true, text); !status)
    return status.failure();
  return text;
}

Result<std::vector<uint8_t>> read_exactly(const ByteSource& source, uint64_t offset, uint64_t size,
                                          bool keep) {
  std::vector<uint8_t> out;
  if (const auto status = read_growing(source, offset, size, keep, out); !status) return status.failure();
  if (out.size() != size)
    return fail(KINORA_ERROR_DATA,
                "{}: was cut off while it was read: {} of {} bytes from byte {}; copy it again",
                source.name(), out.size(), size, offset);
  return out;
}

}  // namespace kinora::core
