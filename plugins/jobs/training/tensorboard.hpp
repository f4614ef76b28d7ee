// TensorBoard's event files: scalars and PNG pictures by step.
//
// A file is a sequence of records: length (8 bytes), masked CRC-32C of the length (4), data, masked CRC-32C
// of the data (4), all little-endian (tensorflow/core/lib/io/record_writer.h). The data are protocol buffers
// Event (tensorflow/core/util/event.proto); of its fields the few that are used here are written by hand,
// which is less than a dependency on protobuf.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace kinora::core {

class TensorBoard {
 public:
  // Goes on with the folder's event file, if there is one, after dropping what it says of steps after `step`
  // and a record that was cut off: a process that was killed had written them, and they come again.
  TensorBoard(const std::filesystem::path& folder, int64_t step);

  void scalar(int64_t step, std::string_view tag, double value);
  // The bytes of a PNG file.
  void image(int64_t step, std::string_view tag, std::string_view png);
  // What was written reaches the file. Throws Error(KINORA_NO_MEMORY) if it cannot.
  void flush();

 private:
  void event(int64_t step, const std::string& fields);
  std::filesystem::path file_;
  std::ofstream out_;
};

// CRC-32C (Castagnoli), as iSCSI and record files have it.
uint32_t crc32c(std::string_view bytes);

}  // namespace kinora::core
