// Bytes of shards of other storages, kept on a local disk: a file for each read, named after what was read. Any
// number of processes may share a folder.
//
//   FOLDER/3f/3f9a...    the bytes, then the 64 hexadecimal digits of their SHA-256
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace kinora::core {

// [any-thread] A disk that fails costs one warning, and then nothing more is kept.
class SampleCache {
 public:
  // limit: bytes of the files together. The least recently used are removed each time a sixteenth of it was
  // written, so the folder may be that much larger for a while. Makes the folder. Throws Error(KINORA_ERROR_INVALID) if
  // someone else may change what is in it (why_untrusted).
  SampleCache(std::filesystem::path folder, uint64_t limit);

  // The name of `length` bytes at `offset` of a file; it has another one after the file was replaced. modified: 0 if
  // the storage does not tell.
  static std::string name_of(std::string_view uri, uint64_t size, int64_t modified, uint64_t offset,
                             uint64_t length);
  // Copies the `size` bytes of this name to `to`. False, and `to` is undefined, if they are not there or damaged.
  bool find(const std::string& name, void* to, uint64_t size) const;
  // The bytes of this name, however many there are; nothing if they are not there or damaged.
  std::optional<std::string> find(const std::string& name) const;
  // Keeps them, in place of a damaged file.
  void keep(const std::string& name, const void* bytes, uint64_t size);

 private:
  std::filesystem::path file_of(const std::string& name) const;
  Status write(const std::string& name, std::string_view bytes) const;
  void trim() const;

  const std::filesystem::path folder_;
  const uint64_t limit_;
  std::atomic<uint64_t> written_;  // bytes since the folder was trimmed; at first enough to trim it
  std::atomic<bool> is_trimming_{false}, is_broken_{false};
};

}  // namespace kinora::core
