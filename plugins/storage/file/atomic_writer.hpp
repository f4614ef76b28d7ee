// A new file that appears under its name complete and flushed to the device, or never.
#pragma once
#include <string>

#include "kinora/storage.hpp"

namespace kinora::file {

// Temporary files are in the folder of the final file, so that the last step is a rename on one device:
// ".kinora-tmp-PID-N". One that a killed process left behind can be removed at any time.
inline constexpr std::string_view kTemporary = ".kinora-tmp-";

class AtomicWriter final : public StorageWriter {
 public:
  explicit AtomicWriter(const std::string& path);  // creates missing folders
  AtomicWriter(const AtomicWriter&) = delete;
  AtomicWriter& operator=(const AtomicWriter&) = delete;
  ~AtomicWriter() override;
  void append(const void* data, uint64_t size) override;
  void commit() override;

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};

}  // namespace kinora::file
