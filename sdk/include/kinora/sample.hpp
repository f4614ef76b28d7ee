// Samples in C++: a counted reference to the host's sample, see abi/sample.h.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinora/abi/sample.h"
#include "kinora/error.hpp"

KINORA_SDK_BEGIN

namespace kinora {

inline const kinora_samples_api& samples_api() {
  static const auto& api = interface<kinora_samples_api>(KINORA_INTERFACE_SAMPLES);
  return api;
}

class Sample {
 public:
  explicit Sample(std::string_view key) { check(samples_api().create(str(key), &s_)); }
  // Takes over the reference.
  static Sample adopt(kinora_sample* s) { return Sample(s); }
  // Adds a reference to a borrowed one.
  static Sample borrow(kinora_sample* s) {
    samples_api().retain(s);
    return Sample(s);
  }
  Sample(const Sample& o) : s_(o.s_) {
    if (s_) samples_api().retain(s_);
  }
  Sample(Sample&& o) noexcept : s_(std::exchange(o.s_, nullptr)) {}
  Sample& operator=(Sample o) noexcept {
    std::swap(s_, o.s_);
    return *this;
  }
  ~Sample() {
    if (s_) samples_api().release(s_);
  }

  // The same fields and tensors, shared, under another key.
  Sample clone(std::string_view key) const {
    kinora_sample* out = nullptr;
    check(samples_api().clone(s_, str(key), &out));
    return Sample(out);
  }
  std::string_view key() const { return view(samples_api().key(s_)); }
  // A field's bytes, valid until it is set again; nullopt if absent.
  std::optional<std::span<const uint8_t>> bytes(const char* name) const {
    kinora_bytes b{};
    if (samples_api().get(s_, name, &b) != KINORA_OK) return std::nullopt;
    return std::span(static_cast<const uint8_t*>(b.data), b.size);
  }
  std::optional<std::string_view> text(const char* name) const {
    const auto b = bytes(name);
    if (!b) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(b->data()), b->size());
  }
  // A required field.
  std::string_view need(const char* name) const {
    if (const auto t = text(name)) return *t;
    throw Error(KINORA_ERROR_NOT_FOUND, "sample '" + std::string(key()) + "' has no field '" + name +
                                            "'; an earlier stage must set it");
  }
  void set(const char* name, std::string_view value) {
    check(samples_api().set(s_, name, {value.data(), value.size()}, nullptr, nullptr));
  }
  // Keeps the vector's memory instead of copying it.
  void set(const char* name, std::vector<uint8_t>&& value) {
    auto* kept = new std::vector<uint8_t>(std::move(value));
    const int32_t status = samples_api().set(
        s_, name, {kept->data(), kept->size()}, [](void* v) { delete static_cast<std::vector<uint8_t>*>(v); },
        kept);
    if (status != KINORA_OK) delete kept;
    check(status);
  }
  void remove(const char* name) { samples_api().remove(s_, name); }
  struct Field {
    std::string_view name;
    std::span<const uint8_t> bytes;
  };
  std::vector<Field> fields() const {
    std::vector<Field> out;
    kinora_str name{};
    kinora_bytes b{};
    for (uint64_t i = 0; samples_api().field(s_, i, &name, &b) == KINORA_OK; ++i)
      out.push_back({view(name), {static_cast<const uint8_t*>(b.data), b.size}});
    return out;
  }
  // The tensor called `name`, borrowed; null if absent.
  const kinora_dl_tensor* tensor(const char* name) const {
    const kinora_dl_tensor* t = nullptr;
    return samples_api().get_tensor(s_, name, &t) == KINORA_OK ? t : nullptr;
  }
  // A row-major CPU tensor whose memory the sample keeps.
  void set_tensor(const char* name, std::vector<uint8_t>&& data, std::vector<int64_t> shape, uint8_t code,
                  uint8_t bits);
  uint64_t memory() const { return samples_api().memory(s_); }
  kinora_sample* get() const { return s_; }
  kinora_sample* release() { return std::exchange(s_, nullptr); }

 private:
  explicit Sample(kinora_sample* s) : s_(s) {}
  kinora_sample* s_ = nullptr;
};

// Whether the elements are one after the other, the last dimension fastest. Strides of dimensions of size 1
// do not matter.
inline bool is_row_major(const kinora_dl_tensor& t) {
  int64_t step = 1;
  for (int32_t i = t.ndim; t.strides && i-- > 0; step *= t.shape[i])
    if (t.shape[i] != 1 && t.strides[i] != step) return false;
  return true;
}

// The shape followed by its row-major strides, in elements: what `shape` and `strides` of a kinora_dl_tensor
// point to.
inline std::vector<int64_t> shape_and_strides(std::vector<int64_t> shape) {
  const size_t n = shape.size();
  shape.resize(2 * n, 1);
  for (size_t i = n; i-- > 1;) shape[n + i - 1] = shape[n + i] * shape[i];
  return shape;
}

inline void Sample::set_tensor(const char* name, std::vector<uint8_t>&& data, std::vector<int64_t> shape,
                               uint8_t code, uint8_t bits) {
  struct Owned {
    kinora_dl_managed managed;
    std::vector<uint8_t> data;
    std::vector<int64_t> shape;  // and strides
  };
  const size_t dimensions = shape.size();
  auto* o = new Owned{{}, std::move(data), shape_and_strides(std::move(shape))};
  o->managed.major = 1;
  o->managed.manager = o;
  o->managed.deleter = [](kinora_dl_managed* m) { delete static_cast<Owned*>(m->manager); };
  o->managed.tensor = {o->data.data(),
                       KINORA_DL_CPU,
                       0,
                       static_cast<int32_t>(dimensions),
                       code,
                       bits,
                       1,
                       o->shape.data(),
                       o->shape.data() + dimensions,
                       0};
  const int32_t status = samples_api().set_tensor(s_, name, &o->managed);
  if (status != KINORA_OK) delete o;
  check(status);
}

}  // namespace kinora

KINORA_SDK_END
