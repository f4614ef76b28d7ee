// Files of any storage in C++, see abi/io.h.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kinora/abi/io.h"
#include "kinora/error.hpp"

KINORA_SDK_BEGIN

namespace kinora {

inline const kinora_io_api& io_api() {
  static const auto& api = interface<kinora_io_api>(KINORA_INTERFACE_IO);
  return api;
}

// Random access to one file. Reads may come from any threads.
class Reader {
 public:
  explicit Reader(std::string_view uri) { check(io_api().open(str(uri), &r_)); }
  Reader(Reader&& o) noexcept : r_(std::exchange(o.r_, nullptr)) {}
  Reader& operator=(Reader&& o) noexcept {
    std::swap(r_, o.r_);
    return *this;
  }
  ~Reader() {
    if (r_) io_api().close(r_);
  }
  int64_t size() const { return io_api().size(r_); }
  // Fewer than `size` bytes only at the end of the file.
  uint64_t read(uint64_t offset, void* to, uint64_t size) const {
    uint64_t got = 0;
    check(io_api().read(r_, offset, to, size, &got));
    return got;
  }

 private:
  kinora_reader* r_ = nullptr;
};

// Bytes with random access: a file, a part of one, or a test's bytes in memory. Parsers read these.
struct RandomBytes {
  std::string name;  // in errors
  uint64_t size = 0;
  // Gives fewer than `size` bytes only at the end. Throws Error.
  std::function<uint64_t(uint64_t offset, void* to, uint64_t size)> read;

  static RandomBytes of_file(std::string_view uri) {
    const auto reader = std::make_shared<Reader>(uri);
    return {std::string(uri), static_cast<uint64_t>(reader->size()),
            [reader](uint64_t offset, void* to, uint64_t size) { return reader->read(offset, to, size); }};
  }
  // The bytes from `from` on, at most `most`.
  RandomBytes part(uint64_t from, uint64_t most) const {
    from = std::min(from, size);
    most = std::min(most, size - from);
    return {name, most, [whole = read, from, most](uint64_t offset, void* to, uint64_t n) {
              return offset < most ? whole(from + offset, to, std::min(n, most - offset)) : uint64_t{0};
            }};
  }
};

// A new file that gets its name on commit(). Without commit() it leaves nothing behind.
class Writer {
 public:
  explicit Writer(std::string_view uri) { check(io_api().create(str(uri), &w_)); }
  Writer(Writer&& o) noexcept : w_(std::exchange(o.w_, nullptr)) {}
  Writer& operator=(Writer&& o) noexcept {
    std::swap(w_, o.w_);
    return *this;
  }
  ~Writer() {
    if (w_) io_api().abort(w_);
  }
  void write(const void* data, uint64_t size) { check(io_api().write(w_, data, size)); }
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit() { check(io_api().commit(std::exchange(w_, nullptr))); }

 private:
  kinora_writer* w_ = nullptr;
};

// Lists the direct contents of a folder, in any order. A status other than KINORA_OK from `each` ends the listing;
// the last one is returned.
inline int32_t list_folder(std::string_view uri, const std::function<int32_t(const kinora_entry&)>& each) {
  int32_t last = KINORA_OK;
  struct Call {
    const std::function<int32_t(const kinora_entry&)>& each;
    int32_t& last;
  } call{each, last};
  const int32_t status = io_api().list(str(uri), &call, [](void* user, const kinora_entry* e) -> int32_t {
    auto& c = *static_cast<Call*>(user);
    const int32_t guarded = guard([&] { c.last = c.each(*e); });
    return guarded == KINORA_OK ? c.last : guarded;
  });
  if (status != last) check(status);
  return last;
}

inline void remove_file(std::string_view uri) { check(io_api().remove(str(uri))); }

}  // namespace kinora

KINORA_SDK_END
