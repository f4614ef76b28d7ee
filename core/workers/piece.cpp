#include "core/workers/piece.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

namespace kinora::core {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

[[noreturn]] void fail(bool in_file, size_t size) {
  const char* why = std::strerror(errno);
  if (in_file)
    throw Error(
        KINORA_IO,
        fmt::format("no temporary file for {} bytes of a sample: {}; set TMPDIR to a folder with room", size,
                    why));
  throw Error(KINORA_NO_MEMORY, fmt::format("no shared memory for {} bytes of a sample: {}", size, why));
}

Descriptor file_without_name() {
  std::error_code error;
  auto folder = std::filesystem::temp_directory_path(error);
  std::string name = ((error ? std::filesystem::path("/tmp") : folder) / "kinora-piece-XXXXXX").string();
  Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

Descriptor duplicate(int fd) { return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// The name in /proc/self/maps of the file behind a shared mapping that begins at `data` with the file's first
// byte.
std::string name_behind(const void* data, size_t size) {
  const auto wanted = reinterpret_cast<uintptr_t>(data);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long long first = 0, last = 0, offset = 0;
    char mode[5] = {};
    int name = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %4s %llx %*s %*s %n", &first, &last, mode, &offset, &name) != 4)
      continue;
    if (first != wanted) continue;
    const bool fits = mode[3] == 's' && offset == 0 && last - first >= size && name > 0;
    return fits ? line.substr(static_cast<size_t>(name)) : "";
  }
  return "";
}

bool is_called(const std::string& entry, const std::string& name) {
  char found[4096];
  const ssize_t n = ::readlink(("/proc/self/fd/" + entry).c_str(), found, sizeof found);
  return n > 0 && std::string_view(found, static_cast<size_t>(n)) == name;
}

}  // namespace

Descriptor piece_of(const void* data, size_t size) {
  const bool in_file = size >= kInFile;
  Descriptor piece = in_file ? file_without_name()
                             : Descriptor(::memfd_create("kinora-sample", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!piece) fail(in_file, size);
  for (size_t at = 0; at < size;) {
    const ssize_t n = ::write(piece.get(), static_cast<const char*>(data) + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(in_file, size);
    at += static_cast<size_t>(n);
  }
  if (!in_file) ::fcntl(piece.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL);
  return piece;
}

Descriptor file_behind(const void* data, size_t size) {
  const std::string name = name_behind(data, size);
  if (!name.ends_with(" (deleted)")) return Descriptor();
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    if (!is_called(entry->d_name, name)) continue;
    Descriptor file = duplicate(std::atoi(entry->d_name));
    struct stat s {};
    if (file && ::fstat(file.get(), &s) == 0 && s.st_nlink == 0 && static_cast<uint64_t>(s.st_size) >= size)
      return file;
  }
  return Descriptor();
}

Mapping::Mapping(const Descriptor& piece, size_t size) : size_(size) {
  struct stat s {};
  // A file cannot be sealed: a compromised worker could shorten it under its owner, which would then die of SIGBUS.
  // Copying it would need the memory that files are there to save.
  const bool sealed = (::fcntl(piece.get(), F_GET_SEALS) & kSeals) == kSeals, large = size >= kInFile;
  if (::fstat(piece.get(), &s) != 0 || !S_ISREG(s.st_mode) || (!large && !sealed) ||
      static_cast<uint64_t>(s.st_size) < size)
    throw Error(KINORA_DATA, "a worker sent memory that is not sealed or too short");
  data_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, piece.get(), 0);
  if (data_ == MAP_FAILED)
    throw Error(KINORA_NO_MEMORY,
                fmt::format("{} bytes of a sample cannot be mapped: {}", size, std::strerror(errno)));
  if (large) kept_ = duplicate(piece.get());
}

Mapping::~Mapping() { ::munmap(data_, size_); }

Descriptor Mapping::again() const { return kept_ ? duplicate(kept_.get()) : Descriptor(); }

}  // namespace kinora::core
