#include "media/spilled_tensor.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>

#include <sys/mman.h>

namespace kinora::video {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

[[noreturn]] void fail(const char* what) {
  throw Error(KINORA_ERROR_IO, std::string("frames for later stages: ") + what + ": " + std::strerror(errno) +
                                   "; set TMPDIR to a folder with room");
}

// Unlinked at once: the kernel frees its space when the last process that holds it ends, even by kill -9.
int unnamed_file() {
  std::error_code error;
  auto folder = std::filesystem::temp_directory_path(error);
  std::string name = ((error ? std::filesystem::path("/tmp") : folder) / "kinora-frames-XXXXXX").string();
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) fail("cannot create a temporary file");
  unlink(name.c_str());
  return file;
}

struct Mapped {
  kinora_dl_managed managed{};
  void* data = nullptr;
  size_t size = 0;
  int file = -1;  // open as long as the tensor lives: the host passes it to another process instead of a copy
  std::vector<int64_t> shape;  // and strides
  ~Mapped() {
    if (size > 0) munmap(data, size);
    if (file >= 0) close(file);
  }
};

}  // namespace

SpilledTensor::~SpilledTensor() {
  if (file_ >= 0) close(file_);
}

uint8_t* SpilledTensor::append(size_t n) {
  if (pending_.size() + n > kBuffer) flush();
  pending_.resize(pending_.size() + n);
  return pending_.data() + (pending_.size() - n);
}

void SpilledTensor::flush() {
  if (file_ < 0) file_ = unnamed_file();
  for (size_t done = 0; done < pending_.size();) {
    const ssize_t n = write(file_, pending_.data() + done, pending_.size() - done);
    if (n < 0 && errno != EINTR) fail("cannot write the temporary file");
    if (n > 0) done += static_cast<size_t>(n);
  }
  written_ += pending_.size();
  pending_.clear();
}

void SpilledTensor::give(Sample& to, const char* name, std::vector<int64_t> shape) {
  flush();
  size_t row = 1;
  for (const int64_t side : shape) row *= static_cast<size_t>(side);
  shape.insert(shape.begin(), static_cast<int64_t>(written_ / row));
  auto kept = std::make_unique<Mapped>();
  const size_t dimensions = shape.size();
  kept->shape = shape_and_strides(std::move(shape));
  if (written_ > 0) {
    // Shared, so that the pages stay the file's own: the kernel can write them back, and another process maps
    // the same ones.
    kept->data = mmap(nullptr, written_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (kept->data == MAP_FAILED) fail("cannot map the temporary file");
    kept->size = written_;
  }
  kept->file = std::exchange(file_, -1);
  kept->managed.major = 1;
  kept->managed.manager = kept.get();
  kept->managed.deleter = [](kinora_dl_managed* m) { delete static_cast<Mapped*>(m->manager); };
  kept->managed.tensor = {kept->data,
                          KINORA_DL_CPU,
                          0,
                          static_cast<int32_t>(dimensions),
                          KINORA_DL_UINT,
                          8,
                          1,
                          kept->shape.data(),
                          kept->shape.data() + dimensions,
                          0};
  check(samples_api().set_tensor(to.get(), name, &kept->managed));
  static_cast<void>(kept.release());
}

}  // namespace kinora::video
