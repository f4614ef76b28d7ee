// Files and folders that appear under their name whole and flushed to the device, or not at all.
//
// Written under a hidden temporary name beside the final one, then flushed, renamed, and the folder flushed. A process that
// dies leaves at most the temporary (".NAME.tmp-..."), which no reader looks at.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/base/status.hpp"

namespace kinora::core {

class AtomicFile {
 public:
  // Creates the temporary; the folder must exist. Failures say which file, what the system said and what to do.
  static Result<AtomicFile> create(const std::filesystem::path& final_name);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) noexcept;
  // Without commit() the temporary is removed.
  ~AtomicFile();

  Status write(const void* data, uint64_t size);
  Status write(std::string_view text) { return write(text.data(), text.size()); }
  // Gives the file its final name, replacing what was there. Once.
  Status commit();
  // For libraries that write by name.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  AtomicFile() = default;
  std::filesystem::path final_, temporary_;
  int fd_ = -1;
};

// Whole contents at once.
Status write_file_atomically(const std::filesystem::path& name, std::string_view contents);

class AtomicFolder {
 public:
  static Result<AtomicFolder> create(const std::filesystem::path& final_name);
  AtomicFolder(AtomicFolder&&) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) noexcept;
  // Without commit() the temporary is removed with all in it.
  ~AtomicFolder();

  // Write here; each file by its own means, flushed (AtomicFile does).
  const std::filesystem::path& temporary() const { return temporary_; }
  // Once. Without `replace`, fails if the final name exists by then; with it, both change places in one step and the older
  // contents go.
  Status commit(bool replace = false);

 private:
  AtomicFolder() = default;
  std::filesystem::path final_, temporary_;
};

// A new hidden name beside the final one, of this machine and process.
std::filesystem::path temporary_name(const std::filesystem::path& final_name);
// Whether a file name is a temporary of this machine whose process is gone.
bool is_abandoned(const std::string& file_name);

// Makes names in a folder survive a power cut.
Status flush_folder(const std::filesystem::path& folder);

}  // namespace kinora::core
