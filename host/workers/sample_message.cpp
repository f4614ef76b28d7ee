#include "host/workers/sample_message.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
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

#include "core/sample/sample.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// A piece holds bytes that two processes map: in sealed shared memory, or from this size on in an unnamed
// file in TMPDIR, which the system may write out and drop from memory at any time. So data as large as a
// whole video needs disk space instead of memory.
constexpr size_t kInFile = 32 << 20;
constexpr size_t kLarge = 32 << 10;  // from this size on a mapping costs less than a copy
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

Descriptor duplicate(int fd) { return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// A piece mapped into this process's memory. The mapping is private: writing to it changes no one else's data.
class MappedMessage final : public SamplePiece {
 public:
  // Throws Error(KINORA_ERROR_DATA) if the piece is too short, or is memory that its sender could still shrink.
  MappedMessage(const Descriptor& piece, size_t size);
  MappedMessage(const MappedMessage&) = delete;
  MappedMessage& operator=(const MappedMessage&) = delete;
  ~MappedMessage() override { ::munmap(data_, size_); }
  uint8_t* data() const override { return static_cast<uint8_t*>(data_); }
  Descriptor again() const override { return kept_ ? duplicate(kept_.get()) : Descriptor(); }

 private:
  void* data_ = nullptr;
  size_t size_;
  Descriptor kept_;  // of a large one alone, since open files are limited
};

[[noreturn]] void fail(bool in_file, size_t size) {
  const char* why = std::strerror(errno);
  if (in_file)
    throw Error(
        KINORA_ERROR_IO,
        fmt::format("no temporary file for {} bytes of a sample: {}; set TMPDIR to a folder with room", size,
                    why));
  throw Error(KINORA_ERROR_NO_MEMORY,
              fmt::format("no shared memory for {} bytes of a sample: {}", size, why));
}

Descriptor file_without_name() {
  std::error_code error;
  auto folder = std::filesystem::temp_directory_path(error);
  std::string name = ((error ? std::filesystem::path("/tmp") : folder) / "kinora-piece-XXXXXX").string();
  Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

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

// A piece with a copy of these bytes. Throws Error(KINORA_ERROR_NO_MEMORY), Error(KINORA_ERROR_IO) if TMPDIR
// is full or not writable.
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

// The unnamed file whose shared mapping these bytes are, from its first byte on, if this process still has it
// open: then they already are a piece. Otherwise empty.
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

MappedMessage::MappedMessage(const Descriptor& piece, size_t size) : size_(size) {
  struct stat s {};
  // A file cannot be sealed: a compromised worker could shorten it under its owner, which would then die of
  // SIGBUS. Copying it would need the memory that files are there to save.
  const bool sealed = (::fcntl(piece.get(), F_GET_SEALS) & kSeals) == kSeals, large = size >= kInFile;
  if (::fstat(piece.get(), &s) != 0 || !S_ISREG(s.st_mode) || (!large && !sealed) ||
      static_cast<uint64_t>(s.st_size) < size)
    throw Error(KINORA_ERROR_DATA, "the other side sent memory that is not sealed or too short");
  data_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, piece.get(), 0);
  if (data_ == MAP_FAILED)
    throw Error(KINORA_ERROR_NO_MEMORY,
                fmt::format("{} bytes of a sample cannot be mapped: {}", size, std::strerror(errno)));
  if (large) kept_ = duplicate(piece.get());
}

// A tensor whose memory is a mapping or a copy of its own.
struct Owned {
  kinora_dl_managed managed{};
  std::shared_ptr<SamplePiece> mapping;
  std::vector<uint8_t> copy;
  std::vector<int64_t> shape;  // and strides
};

void delete_owned(kinora_dl_managed* m) { delete static_cast<Owned*>(m->manager); }
void delete_mapping(void* user) { delete static_cast<std::shared_ptr<SamplePiece>*>(user); }

// The piece that contained a field, for sending it on; empty if there was none, or a small one.
Descriptor piece_of_field(const Sample& sample, std::string_view name) {
  const auto* kept =
      static_cast<std::shared_ptr<SamplePiece>*>(user_of_field(sample.get(), name, delete_mapping));
  return kept ? (*kept)->again() : Descriptor();
}

// The piece that contained a row-major tensor, or the file that a stage has put it in.
Descriptor piece_of_tensor(const kinora_dl_managed& m, const void* data, size_t size) {
  if (m.deleter == delete_owned)
    if (const auto& mapping = static_cast<Owned*>(m.manager)->mapping; mapping && mapping->data() == data)
      return mapping->again();
  return size >= kInFile ? file_behind(data, size) : Descriptor();
}

// Describes where the bytes of one field or tensor are: {"size", "at": n} in the message, or {"size",
// "piece": n}.
json put_bytes(Message& message, const PutPiece& put, const LargeData& what) {
  const bool has_room = message.bytes.size() + what.size <= Message::kMostBytes;
  if (what.size >= kLarge || !has_room) return {{"size", what.size}, {"piece", put(what)}};
  message.bytes.append(static_cast<const char*>(what.data), what.size);
  return {{"size", what.size}, {"at", message.bytes.size() - what.size}};
}

json put_tensor(Message& message, const PutPiece& put, const Sample& sample, const std::string& name) {
  const kinora_dl_managed& managed = *managed_tensor(sample.get(), name);
  const kinora_dl_tensor& t = managed.tensor;
  size_t size = t.bits / 8;
  json shape = json::array();
  for (int32_t d = 0; d < t.ndim; ++d) shape.push_back(t.shape[d]), size *= static_cast<size_t>(t.shape[d]);
  const auto* data = static_cast<const uint8_t*>(t.data) + t.byte_offset;
  json out = put_bytes(message, put, {sample, name, &managed, data, size});
  out.update({{"name", name}, {"code", t.code}, {"bits", t.bits}, {"shape", std::move(shape)}});
  return out;
}

// The bytes that put_bytes() described; `mapped` keeps them alive if they are in a piece of their own.
std::span<uint8_t> find_bytes(const Message& message, const TakePiece& take, const json& where,
                              std::shared_ptr<SamplePiece>& mapped) {
  const auto size = where.at("size").get<uint64_t>();
  if (size == 0) return {};
  if (where.contains("piece")) {
    mapped = take(where["piece"].get<size_t>(), size);
    return {mapped->data(), size};
  }
  const auto at = where.at("at").get<uint64_t>();
  if (at > message.bytes.size() || size > message.bytes.size() - at)
    throw Error(KINORA_ERROR_DATA, "the other side sent a field that is not in its message");
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(message.bytes.data())) + at, size};
}

// The names become file names.
std::string name_in(const json& of, const char* member) {
  const auto name = of.at(member).get<std::string>();
  const std::filesystem::path path(name);
  const bool leaves = path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
  if (name.empty() || leaves || name.find('\0') != std::string::npos)
    throw Error(KINORA_ERROR_DATA, "the other side sent a name that is not a valid file name");
  return name;
}

void take_field(const Message& message, const TakePiece& take, const json& field, Sample& into) {
  std::shared_ptr<SamplePiece> mapped;
  const auto bytes = find_bytes(message, take, field, mapped);
  const auto name = name_in(field, "name");
  if (!mapped)
    return into.set(name.c_str(),
                    std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  auto* kept = new std::shared_ptr<SamplePiece>(std::move(mapped));
  const int32_t status =
      samples_api().set(into.get(), name.c_str(), {bytes.data(), bytes.size()}, delete_mapping, kept);
  if (status != KINORA_OK) delete kept;
  check(status);
}

void take_tensor(const Message& message, const TakePiece& take, const json& tensor, Sample& into) {
  auto owned = std::make_unique<Owned>();
  const auto bytes = find_bytes(message, take, tensor, owned->mapping);
  if (!owned->mapping) owned->copy.assign(bytes.begin(), bytes.end());
  owned->shape = tensor.at("shape").get<std::vector<int64_t>>();
  const auto bits = tensor.at("bits").get<uint8_t>();
  uint64_t size = bits / 8;
  int64_t strides = bits / 8;  // in bytes: also those beside a dimension of size 0 are computed
  for (const int64_t n : owned->shape) {
    if (n < 0 || __builtin_mul_overflow(strides, std::max<int64_t>(n, 1), &strides))
      throw Error(KINORA_ERROR_DATA, "the other side sent a tensor of an impossible shape");
    size *= static_cast<uint64_t>(n);
  }
  const size_t dimensions = owned->shape.size();
  if (bits == 0 || bits % 8 != 0 || size != bytes.size())
    throw Error(KINORA_ERROR_DATA, "the other side sent a tensor that is not as large as its shape says");
  owned->shape = shape_and_strides(std::move(owned->shape));
  owned->managed.major = 1;
  owned->managed.manager = owned.get();
  owned->managed.deleter = delete_owned;
  owned->managed.tensor = {owned->mapping ? owned->mapping->data() : owned->copy.data(),
                           KINORA_DL_CPU,
                           0,
                           static_cast<int32_t>(dimensions),
                           tensor.at("code").get<uint8_t>(),
                           bits,
                           1,
                           owned->shape.data(),
                           owned->shape.data() + dimensions,
                           0};
  check(samples_api().set_tensor(into.get(), name_in(tensor, "name").c_str(), &owned->managed));
  static_cast<void>(owned.release());
}

}  // namespace

void put_sample(Message& message, const Sample& sample, const PutPiece& put) {
  json fields = json::array(), tensors = json::array();
  for (const auto& field : sample.fields()) {
    json told =
        put_bytes(message, put, {sample, field.name, nullptr, field.bytes.data(), field.bytes.size()});
    told["name"] = field.name;
    fields.push_back(std::move(told));
  }
  for (const auto& name : tensor_names(sample.get()))
    tensors.push_back(put_tensor(message, put, sample, name));
  message.head["sample"] = {
      {"key", sample.key()}, {"fields", std::move(fields)}, {"tensors", std::move(tensors)}};
}

void put_sample(Message& message, const Sample& sample) {
  put_sample(message, sample, [&](const LargeData& what) {
    Descriptor ready = what.managed ? piece_of_tensor(*what.managed, what.data, what.size)
                                    : piece_of_field(what.sample, what.name);
    message.shared.push_back(ready ? std::move(ready) : piece_of(what.data, what.size));
    return message.shared.size() - 1;
  });
}

Sample take_sample(const Message& message) {
  return take_sample(message, [&](size_t number, size_t size) {
    return std::make_shared<MappedMessage>(message.shared.at(number), size);
  });
}

Sample take_sample(const Message& message, const TakePiece& take) {
  try {
    const json& told = message.head.at("sample");
    Sample out(name_in(told, "key"));
    for (const json& field : told.at("fields")) take_field(message, take, field, out);
    for (const json& tensor : told.at("tensors")) take_tensor(message, take, tensor, out);
    return out;
  } catch (const json::exception&) {
    throw Error(KINORA_ERROR_DATA,
                "the other side sent a malformed sample: it lacks a part, or has one of another type");
  } catch (const std::out_of_range&) {
    throw Error(KINORA_ERROR_DATA, "the other side sent a sample without its memory");
  }
}

}  // namespace kinora::core
