// A new file that appears under its name complete and flushed to the device, or never.
#pragma once
#include <string>
#include <string_view>

#include "kinora/storage.hpp"

namespace kinora::file {

class AtomicWriter final : public StorageWriter {
 public:
  // A temporary file is in the folder of the final one, so that the last step is a rename or a link on one device. One
  // that a killed process left behind can be removed at any time.
  static bool is_temporary(std::string_view name) { return name.starts_with(kTemporary); }

  explicit AtomicWriter(const std::string& path);  // creates missing folders
  AtomicWriter(const AtomicWriter&) = delete;
  AtomicWriter& operator=(const AtomicWriter&) = delete;
  ~AtomicWriter() override;
  void append(const void* data, uint64_t size) override;
  void commit() override;
  // The same for a name that no file has. False: one has it.
  bool commit_new();

 private:
  static constexpr std::string_view kTemporary = ".kinora-tmp-";  // PID-N
  static std::string temporary_in(const std::string& folder);
  void flush();
  std::string path_, temporary_;
  int descriptor_ = -1;
};

}  // namespace kinora::file
