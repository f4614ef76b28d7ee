// A storage in C++, see abi/storage.h.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
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

// A whole small object, see kinora_storage.put_if.
struct SmallObject {
  std::string bytes, tag;
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
  // The conditional functions and the flat listing of abi/storage.h. A T that leaves one out does not offer it.
  // Returns the new tag; nothing: the object has another tag.
  virtual std::optional<std::string> put_if(std::string_view, std::string_view /*bytes*/,
                                            std::string_view /*tag*/) {
    throw not_offered();
  }
  virtual SmallObject read_small(std::string_view) { throw not_offered(); }
  // False: the object has another tag, or there is none.
  virtual bool remove_if(std::string_view, std::string_view /*tag*/) { throw not_offered(); }
  virtual int32_t list_from(std::string_view, std::string_view /*after*/, uint64_t /*most*/, const Each&) {
    throw not_offered();
  }

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
        interrupt_of<T>(),
        put_if_of<T>(),
        read_small_of<T>(),
        remove_if_of<T>(),
        list_from_of<T>()};
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
  static Error not_offered() { return {KINORA_ERROR_UNSUPPORTED, "this storage has no such function"}; }
  static void write_to(const kinora_sink* to, const std::string& text) {
    to->write(to->self, text.data(), text.size());
  }
  template <class T>
  static constexpr auto put_if_of() -> decltype(kinora_storage::put_if) {
    if constexpr (std::is_same_v<decltype(&T::put_if), decltype(&Storage::put_if)>)
      return nullptr;
    else
      return [](void* self, kinora_str path, kinora_bytes bytes, kinora_str tag, const kinora_sink* made) {
        std::optional<std::string> put;
        const std::string_view all(static_cast<const char*>(bytes.data), bytes.size);
        const int32_t status = guard([&] { put = of(self)->put_if(view(path), all, view(tag)); });
        if (status != KINORA_OK || !put)
          return status != KINORA_OK ? status : int32_t{KINORA_SIGNAL_CONFLICT};
        write_to(made, *put);
        return int32_t{KINORA_OK};
      };
  }
  template <class T>
  static constexpr auto read_small_of() -> decltype(kinora_storage::read_small) {
    if constexpr (std::is_same_v<decltype(&T::read_small), decltype(&Storage::read_small)>)
      return nullptr;
    else
      return [](void* self, kinora_str path, const kinora_sink* bytes, const kinora_sink* tag) {
        return guard([&] {
          const SmallObject found = of(self)->read_small(view(path));
          write_to(bytes, found.bytes), write_to(tag, found.tag);
        });
      };
  }
  template <class T>
  static constexpr auto remove_if_of() -> decltype(kinora_storage::remove_if) {
    if constexpr (std::is_same_v<decltype(&T::remove_if), decltype(&Storage::remove_if)>)
      return nullptr;
    else
      return [](void* self, kinora_str path, kinora_str tag) {
        bool removed = false;
        const int32_t status = guard([&] { removed = of(self)->remove_if(view(path), view(tag)); });
        return status != KINORA_OK || removed ? status : int32_t{KINORA_SIGNAL_CONFLICT};
      };
  }
  template <class T>
  static constexpr auto list_from_of() -> decltype(kinora_storage::list_from) {
    if constexpr (std::is_same_v<decltype(&T::list_from), decltype(&Storage::list_from)>)
      return nullptr;
    else
      return [](void* self, kinora_str path, kinora_str after, uint64_t most, void* user,
                int32_t (*each)(void*, const kinora_entry*)) {
        int32_t last = KINORA_OK;
        const auto one = [&](const kinora_entry& e) { return each(user, &e); };
        const int32_t status = guard([&] { last = of(self)->list_from(view(path), view(after), most, one); });
        return status == KINORA_OK ? last : status;
      };
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
