// SemDeDup's rule (arXiv 2303.09540; Cosmos-Curate and NeMo Curator use it): within a cluster, in keep order, a
// clip is dropped if its cosine with any earlier clip is at least 1 - eps, whether or not the earlier clip is
// kept.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace kinora::dedup {

struct Near {
  int64_t of = -1;        // row of the most similar earlier clip; -1: first of its cluster
  float similarity = -1;  // cosine with that clip
};

// vectors [count, size], rows of norm 1, in keep order; cluster [count]. Returns one entry per row. Needs memory
// for one copy of the largest cluster.
std::vector<Near> nearest_before(std::span<const float> vectors, int64_t size,
                                 std::span<const int64_t> cluster);

}  // namespace kinora::dedup
