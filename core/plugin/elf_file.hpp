// A shared library's file, read at checked offsets. Private to the readers of core/plugin.
#pragma once
#include <elf.h>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/status.hpp"

namespace kinora::core {

class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path);
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;
  ~ElfFile();

  // Reads the header and the section table. KINORA_DATA with the reason if it is not a shared library for
  // this machine.
  Status open();

  // Valid after open(). Empty: the table was stripped.
  const Elf64_Ehdr& header() const { return header_; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }

  // KINORA_DATA if the section is not entirely inside the file, or larger than `at_most` bytes.
  Result<std::string> contents(const Elf64_Shdr& section, uint64_t at_most, const char* what) const;
  // The NUL-terminated text at `at` in a section of strings, at most 4,095 bytes.
  Result<std::string> text(const Elf64_Shdr& strings, uint64_t at, const char* what) const;

  const std::string& name() const { return name_; }

 private:
  Status stat_it();
  Status read(uint64_t offset, void* to, uint64_t size, const char* what) const;
  template <class T>
  Result<T> value(uint64_t offset, const char* what) const;
  Status check_header() const;
  Status read_header();
  Status read_sections();

  std::string name_;
  int fd_;
  uint64_t size_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace kinora::core
