#include "core/sample/sample.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "kinora/error.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {
namespace {

// A field's bytes: a copy, or memory of its owner that is handed back at the end.
struct Blob {
  std::string copy;
  kinora_bytes view{};
  void (*release)(void*) = nullptr;
  void* user = nullptr;
  Blob() = default;
  Blob(const Blob&) = delete;
  Blob& operator=(const Blob&) = delete;
  ~Blob() {
    if (release) release(user);
  }
};

struct TensorBox {
  kinora_dl_managed* managed = nullptr;
  TensorBox() = default;
  TensorBox(const TensorBox&) = delete;
  TensorBox& operator=(const TensorBox&) = delete;
  ~TensorBox() {
    if (managed && managed->deleter) managed->deleter(managed);
  }
};

template <class T>
struct NamedItem {
  std::string name;
  std::shared_ptr<T> value;
};

template <class T>
auto find_item(std::vector<NamedItem<T>>& items, std::string_view name) {
  return std::find_if(items.begin(), items.end(), [&](const auto& i) { return i.name == name; });
}

template <class T>
void put(std::vector<NamedItem<T>>& items, const char* name, std::shared_ptr<T> value) {
  const auto it = find_item(items, name);
  if (it == items.end()) {
    items.push_back({name, std::move(value)});
  } else {
    it->value = std::move(value);
  }
}

uint64_t tensor_bytes(const kinora_dl_tensor& t) {
  uint64_t bytes = t.bits / 8;
  for (int32_t i = 0; i < t.ndim; ++i) bytes *= static_cast<uint64_t>(t.shape[i]);
  return bytes;
}

// Whether the number of bytes has 62 bits. Dimensions of size 0 count as 1, since readers multiply in any order.
bool has_possible_size(const kinora_dl_tensor& t) {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t bytes = t.bits / 8;
  for (int32_t i = 0; i < t.ndim; ++i)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(t.shape[i], 1), &bytes) || bytes > kMost)
      return false;
  return t.byte_offset <= static_cast<uint64_t>(kMost);
}

void check_tensor(const char* name, const kinora_dl_managed* m) {
  if (!m || m->major != 1)
    throw Error(KINORA_ERROR_INVALID, fmt::format("tensor '{}': not DLPack 1.x", name));
  const auto& t = m->tensor;
  if (t.device_type != KINORA_DL_CPU)
    throw Error(
        KINORA_ERROR_UNSUPPORTED,
        fmt::format("tensor '{}' is on a GPU; a sample keeps tensors of the CPU: copy it first", name));
  if (t.ndim < 0 || t.ndim > 64 || (t.ndim > 0 && !t.shape))
    throw Error(KINORA_ERROR_INVALID, fmt::format("tensor '{}': {} dimensions", name, t.ndim));
  for (int32_t i = 0; i < t.ndim; ++i)
    if (t.shape[i] < 0)
      throw Error(KINORA_ERROR_INVALID, fmt::format("tensor '{}': dimension {} is {}", name, i, t.shape[i]));
  if (t.lanes != 1 || (t.bits != 8 && t.bits != 16 && t.bits != 32 && t.bits != 64))
    throw Error(
        KINORA_ERROR_UNSUPPORTED,
        fmt::format("tensor '{}': elements of {} bits in {} lanes; give 8, 16, 32 or 64 bits in 1 lane", name,
                    t.bits, t.lanes));
  if (t.code != KINORA_DL_INT && t.code != KINORA_DL_UINT && t.code != KINORA_DL_FLOAT &&
      t.code != KINORA_DL_BFLOAT && t.code != KINORA_DL_BOOL)
    throw Error(
        KINORA_ERROR_UNSUPPORTED,
        fmt::format("tensor '{}': elements of the unknown type {}; give integers, floats or truth values",
                    name, t.code));
  if (!has_possible_size(t))
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("tensor '{}': its shape or its offset exceed any memory", name));
  if (tensor_bytes(t) > 0 && !is_row_major(t))
    throw Error(
        KINORA_ERROR_UNSUPPORTED,
        fmt::format("tensor '{}': its strides are not those of row-major order; copy it first", name));
  if (!t.data && tensor_bytes(t) > 0)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("tensor '{}': elements without memory (data is null)", name));
}

// Fields become file names inside a shard.
void check_field_name(std::string_view name) {
  if (name.empty() || name[0] == '.' || name.size() > 255)
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format(
            "'{}' is not a valid field name; use an extension without its leading dot, for example \"mp4\"",
            name));
  for (const char c : name)
    if (c == '/' || static_cast<unsigned char>(c) < 0x20)
      throw Error(KINORA_ERROR_INVALID, "a field name has no '/' and no control characters");
}

}  // namespace
}  // namespace kinora::core

struct kinora_sample {
  std::atomic<int64_t> count{1};
  std::string key;
  std::vector<kinora::core::NamedItem<kinora::core::Blob>> fields;
  std::vector<kinora::core::NamedItem<kinora::core::TensorBox>> tensors;
};

namespace kinora::core {
namespace {

// Keys become names of files: relative ones that stay below their folder.
std::string checked_key(kinora_str key) {
  const std::string_view text = view(key);
  const auto refuse = [&](const char* why) {
    std::string shown;
    for (const char c : text.substr(0, 80)) shown += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("sample key '{}': {}; keys are relative names such as \"video-0003\" or \"a/b\"",
                            shown, why));
  };
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") refuse("a part of it is empty, '.' or '..'");
    if (part.size() > 200) refuse("a part of it is longer than 200 bytes");
    begin = end + 1;
  }
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) refuse("it has control characters");
  return std::string(text);
}

int32_t create(kinora_str key, kinora_sample** out) {
  return guard([&] {
    auto s = std::make_unique<kinora_sample>();
    s->key = checked_key(key);
    *out = s.release();
  });
}

int32_t clone(const kinora_sample* from, kinora_str key, kinora_sample** out) {
  return guard([&] {
    auto s = std::make_unique<kinora_sample>();
    s->key = checked_key(key);
    s->fields = from->fields;
    s->tensors = from->tensors;
    *out = s.release();
  });
}

void retain(kinora_sample* s) { s->count.fetch_add(1, std::memory_order_relaxed); }

void release(kinora_sample* s) {
  if (s && s->count.fetch_sub(1, std::memory_order_acq_rel) == 1) delete s;
}

kinora_str key(const kinora_sample* s) { return str(s->key); }

int32_t field(const kinora_sample* s, uint64_t index, kinora_str* name, kinora_bytes* value) {
  if (index >= s->fields.size()) return KINORA_ERROR_NOT_FOUND;
  *name = str(s->fields[index].name);
  *value = s->fields[index].value->view;
  return KINORA_OK;
}

int32_t get(const kinora_sample* s, const char* name, kinora_bytes* out) {
  for (const auto& f : s->fields) {
    if (f.name != name) continue;
    *out = f.value->view;
    return KINORA_OK;
  }
  return KINORA_ERROR_NOT_FOUND;
}

int32_t set(kinora_sample* s, const char* name, kinora_bytes value, void (*release_bytes)(void*),
            void* user) {
  return guard([&] {
    check_field_name(name);
    auto blob = std::make_shared<Blob>();
    if (!release_bytes) blob->copy.assign(static_cast<const char*>(value.data), value.data ? value.size : 0);
    blob->view = release_bytes ? value : kinora_bytes{blob->copy.data(), blob->copy.size()};
    auto* kept = blob.get();
    put(s->fields, name, std::move(blob));
    // Last of all: until here a failure leaves the bytes with the caller.
    kept->user = user;
    kept->release = release_bytes;
  });
}

void remove_item(kinora_sample* s, const char* name) {
  std::erase_if(s->fields, [&](const auto& f) { return f.name == name; });
  std::erase_if(s->tensors, [&](const auto& t) { return t.name == name; });
}

int32_t get_tensor(const kinora_sample* s, const char* name, const kinora_dl_tensor** out) {
  for (const auto& t : s->tensors) {
    if (t.name != name) continue;
    *out = &t.value->managed->tensor;
    return KINORA_OK;
  }
  return KINORA_ERROR_NOT_FOUND;
}

int32_t set_tensor(kinora_sample* s, const char* name, kinora_dl_managed* tensor) {
  return guard([&] {
    check_tensor(name, tensor);
    auto box = std::make_shared<TensorBox>();
    auto* kept = box.get();
    put(s->tensors, name, std::move(box));
    kept->managed = tensor;
  });
}

uint64_t memory(const kinora_sample* s) {
  uint64_t bytes = sizeof *s + s->key.size();
  for (const auto& f : s->fields) bytes += f.value->view.size;
  for (const auto& t : s->tensors) bytes += tensor_bytes(t.value->managed->tensor);
  return bytes;
}

}  // namespace

const kinora_samples_api& samples_table() {
  static const kinora_samples_api table{sizeof(kinora_samples_api),
                                        0,
                                        create,
                                        clone,
                                        retain,
                                        release,
                                        key,
                                        field,
                                        get,
                                        set,
                                        remove_item,
                                        get_tensor,
                                        set_tensor,
                                        memory};
  return table;
}

std::vector<std::string> tensor_names(const kinora_sample* s) {
  std::vector<std::string> out;
  for (const auto& t : s->tensors) out.push_back(t.name);
  return out;
}

const kinora_dl_managed* managed_tensor(const kinora_sample* s, std::string_view name) {
  for (const auto& t : s->tensors)
    if (t.name == name) return t.value->managed;
  return nullptr;
}

void* user_of_field(const kinora_sample* s, std::string_view name, void (*release)(void*)) {
  for (const auto& f : s->fields)
    if (f.name == name) return f.value->release == release ? f.value->user : nullptr;
  return nullptr;
}

std::string key_of_name(std::string_view given) {
  constexpr size_t kLongest = 150;  // with a clip's number and a field's name it is still a file's name
  std::string name = valid_utf8(given);
  for (auto& c : name) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (control || c == '.' || c == '/') c = '-';
  }
  if (name.empty()) return "film";
  if (name.size() <= kLongest) return name;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end);
}

}  // namespace kinora::core
