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
};

}  // namespace kinora::file
