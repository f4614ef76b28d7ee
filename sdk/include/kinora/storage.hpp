// A storage in C++, see abi/storage.h.
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>

#include "kinora/abi/storage.h"
#include "kinora/options.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// One object, open for random access. Reads may come from any threads.
class StorageReader {
 public:
  virtual ~StorageReader() = default;
  // Size when it was opened.
  virtual uint64_t size() const = 0;
  // Fewer than `size` bytes only at the end.
  virtual uint64_t read(uint64_t offset, void* to, uint64_t size) = 0;
};

// One new object. Without commit(), or if commit() throws, it leaves nothing behind.
class StorageWriter {
 public:
  virtual ~StorageWriter() = default;
  virtual void append(const void* data, uint64_t size) = 0;
  // Flushes to the device, then sets the final name in one step.
  virtual void commit() = 0;
};

// A subclass T has: struct Options; static void describe(Describe<Options>&); explicit T(const Options&).
class Storage {
 public:
  static constexpr const char* kind = "storage";
  static constexpr const char* interface_id = KINORA_INTERFACE_STORAGE;
  // A status other than KINORA_OK ends the listing.
  using Each = std::function<int32_t(const kinora_entry&)>;
  virtual ~Storage() = default;
  virtual std::unique_ptr<StorageReader> open(std::string_view path) = 0;
  virtual std::unique_ptr<StorageWriter> begin(std::string_view path) = 0;
  // Lists the folder's direct contents. Returns what `each` returned last.
  virtual int32_t list(std::string_view path, const Each& each) = 0;
  virtual void remove(std::string_view path) = 0;
  // [any-thread] The run was asked to stop: calls that are waiting now end by an Error(KINORA_ERROR_CANCELLED).
  virtual void interrupt() {}

  template <class T>
  static const void* api() {
    static const kinora_storage table{
        sizeof(kinora_storage),
        0,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Storage* made = nullptr;
          guard([&] { made = new T(described<T>().read(o)); });
          return made;
        },
        [](void* self) { delete of(self); },
        open_object,
        read_object,
        [](void*, void* reader) { delete static_cast<StorageReader*>(reader); },
        begin_object,
        append_object,
        commit_object,
        [](void*, void* writer) { delete static_cast<StorageWriter*>(writer); },
        list_folder,
        [](void* self, kinora_str path) { return guard([&] { of(self)->remove(view(path)); }); },
        interrupt_of<T>()};
    return &table;
  }

 private:
  // Null for a T whose calls wait for nobody.
  template <class T>
  static constexpr auto interrupt_of() -> void (*)(void*) {
    if constexpr (std::is_same_v<decltype(&T::interrupt), decltype(&Storage::interrupt)>)
      return nullptr;
    else
      return [](void* self) { guard([&] { of(self)->interrupt(); }); };
  }
  static Storage* of(void* self) { return static_cast<Storage*>(self); }
  static int32_t open_object(void* self, kinora_str path, void** reader, uint64_t* size) {
    return guard([&] {
      auto made = of(self)->open(view(path));
      *size = made->size();
      *reader = made.release();
    });
  }
  static int32_t read_object(void*, void* reader, uint64_t offset, void* to, uint64_t size, uint64_t* got) {
    return guard([&] { *got = static_cast<StorageReader*>(reader)->read(offset, to, size); });
  }
  static int32_t begin_object(void* self, kinora_str path, void** writer) {
    return guard([&] { *writer = of(self)->begin(view(path)).release(); });
  }
  static int32_t append_object(void*, void* writer, const void* data, uint64_t size) {
    return guard([&] { static_cast<StorageWriter*>(writer)->append(data, size); });
  }
  static int32_t commit_object(void*, void* writer) {
    const std::unique_ptr<StorageWriter> ends(static_cast<StorageWriter*>(writer));
    return guard([&] { ends->commit(); });
  }
  static int32_t list_folder(void* self, kinora_str path, void* user,
                             int32_t (*each)(void*, const kinora_entry*)) {
    int32_t last = KINORA_OK;
    const int32_t status = guard(
        [&] { last = of(self)->list(view(path), [&](const kinora_entry& e) { return each(user, &e); }); });
    return status == KINORA_OK ? last : status;
  }
};

}  // namespace kinora

KINORA_SDK_END
