// Writes files by HDF5's C library: handles that close themselves, and errors as kinora::Error with the library's
// own message. The library opens no file that exists: what reads them is plugins/jobs/latents/hdf5/hdf5_file.hpp.
#pragma once
#include <filesystem>
#include <hdf5.h>
#include <mutex>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

namespace kinora::core::hdf5 {

// Debian's build of the library is not thread-safe: every use of it in the process holds this lock, also
// the calls of the functions below and a Handle's destruction.
std::unique_lock<std::mutex> lock();

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& o) noexcept : id_(std::exchange(o.id_, -1)), close_(o.close_) {}
  Handle& operator=(Handle&& o) noexcept {
    std::swap(id_, o.id_);
    std::swap(close_, o.close_);
    return *this;
  }
  ~Handle() { close(); }
  void close() {
    if (id_ >= 0) close_(std::exchange(id_, -1));
  }
  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// The innermost message of the last failed call.
std::string last_message();

// If not `ok`, throws Error(code) with `what`, the library's message and `remedy`.
void need(bool ok, int32_t code, const std::string& what, const std::string& remedy = "");

Handle create_file(const std::filesystem::path& path);

// Writes one dataset, chunked, with fletcher32 checksums (neither if it has no elements or dimensions).
void write_dataset(hid_t group, const std::string& name, const at::Tensor& tensor, const std::string& what);

}  // namespace kinora::core::hdf5
