// Philox4x32-10, a counter-based generator (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3"): the same key and counter give the same four words everywhere.
#pragma once
#include <cstdint>

#include "kernels/host_device.hpp"

namespace kinora::fp4 {

struct Words {
  uint32_t of[4];
};

KINORA_BOTH inline Words philox(uint64_t key, Words counter) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  KINORA_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53u} * counter.of[0], b = uint64_t{0xcd9e8d57u} * counter.of[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.of[1] ^ k0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.of[3] ^ k1, static_cast<uint32_t>(a)}};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return counter;
}

// Where the noise of stochastic rounding comes from. A value's noise depends on its row and column in the
// whole tensor alone, so every layout of ranks and every recomputation rounds alike.
struct Noise {
  uint64_t seed = 0;
  uint32_t stream = 0;    // number of the tensor, layer or step
  int64_t first_row = 0;  // place of this part in the whole tensor
  int64_t first_col = 0;  // a multiple of 16
};

// The noise of eight neighbours: columns 8 * eighth to 8 * eighth + 7 of this part. Value i has the 16 bits
// of word i / 2, the low half first.
KINORA_BOTH inline Words noise_of_eight(const Noise& noise, int64_t row, int64_t eighth) {
  const uint64_t r = static_cast<uint64_t>(noise.first_row + row);
  return philox(noise.seed, {{static_cast<uint32_t>(noise.first_col / 8 + eighth), static_cast<uint32_t>(r),
                              static_cast<uint32_t>(r >> 32), noise.stream}});
}
KINORA_BOTH inline uint32_t noise_at(const Words& words, int i) {
  return words.of[i / 2] >> (i % 2 * 16) & 0xffff;
}

}  // namespace kinora::fp4
