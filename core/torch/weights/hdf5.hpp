// HDF5's C library: handles that close themselves, errors as kinora::Error with the library's own words.
#pragma once
#include <filesystem>
#include <hdf5.h>
#include <mutex>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

namespace kinora::core::hdf5 {

// The library as Debian builds it is not thread-safe: every use of it in the process holds this.
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

// Throws Error(code) with `what`, the library's message and `remedy` if the call failed.
void need(bool ok, int32_t code, const std::string& what, const std::string& remedy = "");

Handle create_file(const std::filesystem::path& path);
Handle open_file(const std::filesystem::path& path);

// How to open a group or dataset (H5P_GROUP_ACCESS, H5P_DATASET_ACCESS): a link to another file is not followed.
Handle within_file(hid_t kind);

// One dataset, chunked, with fletcher32 checksums (those without elements or dimensions: neither).
void write_dataset(hid_t group, const std::string& name, const at::Tensor& tensor, const std::string& what);
// A new CPU tensor, of numbers that are in the file itself. Damage is Error(KINORA_DATA) that begins with `what`.
at::Tensor read_dataset(hid_t group, const std::string& name, const std::string& what);

}  // namespace kinora::core::hdf5
