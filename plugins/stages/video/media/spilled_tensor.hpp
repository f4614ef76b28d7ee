// A uint8 tensor of unknown length that grows in an unlinked temporary file and then is memory mapped from it: a long
// film's frames lie in the page cache, which the kernel writes back and gives away, instead of in the process.
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

  // Room for the next `n` bytes, to be filled before the next call.
  // Error(KINORA_IO) when the folder for temporary files (TMPDIR) cannot be written or is full.
  uint8_t* append(size_t n);

  // Gives the sample what was appended as the tensor `name`, [rows, ...shape]. Nothing can be appended after.
  void give(Sample& to, const char* name, std::vector<int64_t> shape);

 private:
  void flush();
  int file_ = -1;
  size_t written_ = 0;
  std::vector<uint8_t> pending_;
};

}  // namespace kinora::video
