// TensorBoard's event files: scalars and PNG pictures by step.
//
// A file is a sequence of records: length (8 bytes), masked CRC-32C of the length (4), data, masked CRC-32C
// of the data (4), all little-endian (tensorflow/core/lib/io/record_writer.h). The data are protocol buffers
// Event (tensorflow/core/util/event.proto); the few fields used here are written by hand, which is less code
// than a dependency on protobuf.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace kinora::core {

class TensorBoard {
 public:
  // Continues the folder's event file, if there is one, after dropping events of steps after `step` and an
  // incomplete record: a killed process wrote them, and they are written again.
  TensorBoard(const std::filesystem::path& folder, int64_t step);

  void scalar(int64_t step, std::string_view tag, double value);
  // The bytes of a PNG file.
  void image(int64_t step, std::string_view tag, std::string_view png);
  // Flushes to the file. Throws Error(KINORA_ERROR_NO_MEMORY) if it cannot.
  void flush();

 private:
  void event(int64_t step, const std::string& fields);
  std::filesystem::path file_;
  std::ofstream out_;
  bool may_write_ = false;  // until the next flush()
};

// CRC-32C (Castagnoli), as in iSCSI and record files.
uint32_t crc32c(std::string_view bytes);

}  // namespace kinora::core
