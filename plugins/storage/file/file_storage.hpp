// storage/file: the files of this machine.
#pragma once
#include "kinora/storage.hpp"

namespace kinora::file {

class FileStorage final : public Storage {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("file").help("Files of this machine, written atomically");
  }
  explicit FileStorage(const Options&) {}
  std::unique_ptr<StorageReader> open(std::string_view path) override;
  std::unique_ptr<StorageWriter> begin(std::string_view path) override;
  // Omits temporary files of writers. An entry that cannot be examined (a broken link, a disk that is
  // unavailable) has size and time 0.
  int32_t list(std::string_view path, const Each& each) override;
  void remove(std::string_view path) override;
  // An object is created by a hard link, and replaced or removed while its file is locked (flock). A tag is a hash
  // of the bytes.
  std::optional<std::string> put_if(std::string_view path, std::string_view bytes,
                                    std::string_view tag) override;
  SmallObject read_small(std::string_view path) override;
  bool remove_if(std::string_view path, std::string_view tag) override;
  int32_t list_from(std::string_view path, std::string_view after, uint64_t most, const Each& each) override;
};

}  // namespace kinora::file
