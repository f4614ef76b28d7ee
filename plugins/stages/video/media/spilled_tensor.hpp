// A uint8 tensor of unknown length that grows in an unlinked temporary file and is then memory-mapped. So a
// long video's frames occupy the page cache, which the kernel can write back and reclaim, instead of the
// process's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kinora/sample.hpp"

namespace kinora::video {

class SpilledTensor {
 public:
  SpilledTensor() = default;
  ~SpilledTensor();
  SpilledTensor(const SpilledTensor&) = delete;
  SpilledTensor& operator=(const SpilledTensor&) = delete;

  // Returns room for the next `n` bytes, which the caller fills before the next call.
  // Error(KINORA_ERROR_IO) if the folder for temporary files (TMPDIR) cannot be written or is full.
  uint8_t* append(size_t n);

  // Sets the appended bytes as the sample's tensor `name`, [rows, ...shape]. Nothing can be appended
  // afterwards.
  void give(Sample& to, const char* name, std::vector<int64_t> shape);

 private:
  void flush();
  int file_ = -1;
  size_t written_ = 0;
  std::vector<uint8_t> pending_;
};

}  // namespace kinora::video
