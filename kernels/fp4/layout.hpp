// Where codes and scales of a matrix [rows, cols] are stored.
//   codes:  [rows, (cols + 1) / 2] bytes; column 2 i in the low nibble of byte i; an odd row ends with a 0.
//   scales: [rows, (cols + 15) / 16] bytes; a 16x16 block repeats its scale on each of its rows.
//   swizzled scales: the order of the tensor cores' block-scaled product: rows padded to 128 and columns to 4
//           with zeros, tiles of 128x4 in sequence, each as [32, 4, 4]: row % 32, row % 128 / 32, column % 4.
#pragma once
#include <cstdint>

#include "kernels/host_device.hpp"

namespace kinora::fp4 {

constexpr int64_t kBlock = 16;

struct Shape {
  int64_t rows, cols;
};

KINORA_BOTH inline int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
KINORA_BOTH inline int64_t blocks_a_row(const Shape& n) { return divided_up(n.cols, kBlock); }
KINORA_BOTH inline int64_t code_bytes_a_row(const Shape& n) { return (n.cols + 1) / 2; }
KINORA_BOTH inline int64_t code_bytes(const Shape& n) { return n.rows * code_bytes_a_row(n); }
KINORA_BOTH inline int64_t scale_bytes(const Shape& n, bool swizzled) {
  if (!swizzled) return n.rows * blocks_a_row(n);
  return divided_up(n.rows, 128) * 128 * divided_up(blocks_a_row(n), 4) * 4;
}

KINORA_BOTH inline int64_t scale_place(int64_t blocks_a_row, bool swizzled, int64_t row, int64_t block) {
  if (!swizzled) return row * blocks_a_row + block;
  const auto r = static_cast<uint32_t>(row) % 128, b = static_cast<uint32_t>(block);  // block < 2^31
  const int64_t tile =
      static_cast<int64_t>(static_cast<uint64_t>(row) / 128) * divided_up(blocks_a_row, 4) + b / 4;
  return tile * 512 + (r % 32 * 16 + r / 32 * 4 + b % 4);
}

}  // namespace kinora::fp4
