// Files and folders that appear under their name complete and flushed to the device, or not at all.
//
// They are written under a hidden temporary name next to the final one, flushed and renamed, and then the
// folder is flushed. A process that dies leaves at most the temporary (".NAME.tmp-..."), which readers
// ignore.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/base/status.hpp"

namespace kinora::core {

class AtomicFile {
 public:
  // Creates the temporary; the folder must exist. Failures name the file, the system's error and what to do.
  static Result<AtomicFile> create(const std::filesystem::path& final_name);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) noexcept;
  // Without commit() the temporary is removed.
  ~AtomicFile();

  Status write(const void* data, uint64_t size);
  Status write(std::string_view text) { return write(text.data(), text.size()); }
  // Gives the file its final name, replacing an existing one. Call once. flushes_folder = false: the
  // caller flushes the folder, once for several files; until then a power cut may take the name away.
  Status commit(bool flushes_folder = true);
  // For libraries that write by name.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  AtomicFile() = default;
  std::filesystem::path final_, temporary_;
  int fd_ = -1;
};

// Writes the whole contents at once.
Status write_file_atomically(const std::filesystem::path& name, std::string_view contents);

class AtomicFolder {
 public:
  // A slash at the end changes nothing.
  static Result<AtomicFolder> create(const std::filesystem::path& final_name);
  AtomicFolder(AtomicFolder&&) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) noexcept;
  // Without commit() the temporary is removed with its contents.
  ~AtomicFolder();

  // Folder to write to; each file must be flushed (as AtomicFile does).
  const std::filesystem::path& temporary() const { return temporary_; }
  // Call once. Without `replace`, fails if the final name exists by then; with it, both are exchanged in one
  // step and the older contents are removed.
  Status commit(bool replace = false);

 private:
  AtomicFolder() = default;
  std::filesystem::path final_, temporary_;
};

// A new hidden name next to the final one, unique to this machine and process.
std::filesystem::path temporary_name(const std::filesystem::path& final_name);
// Whether a file name is a temporary of this machine whose process is gone.
bool is_abandoned(const std::string& file_name);

// Makes names in a folder survive a power cut.
Status flush_folder(const std::filesystem::path& folder);

}  // namespace kinora::core
