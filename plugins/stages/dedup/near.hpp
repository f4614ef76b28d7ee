// SemDeDup's rule (arXiv 2303.09540, and what Cosmos-Curate and NeMo Curator do): inside a cluster, in the
// order of keeping, a clip goes if its cosine with any clip before it is at least 1 - eps, whether that one
// stays or not.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace kinora::dedup {

struct Near {
  int64_t of = -1;        // row of the most similar one before it; -1: it is the first of its cluster
  float similarity = -1;  // with that one
};

// vectors [count, size] of length 1, in the order of keeping; cluster [count]. One entry a row. Memory: the
// largest cluster once.
std::vector<Near> nearest_before(std::span<const float> vectors, int64_t size,
                                 std::span<const int64_t> cluster);

}  // namespace kinora::dedup
