// Spherical k-means with faiss: duplicates are searched within each cluster.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace kinora::dedup {

struct KMeans {
  int64_t clusters = 0;  // 0: one per 1,024 vectors, so about 1,024 are compared pairwise
  int64_t iterations = 20;
  int64_t seed = 1234;
};

int64_t clusters_for(const KMeans&, int64_t count);

// Returns the cluster of each row of `vectors` [count, size], rows of norm 1. The same vectors in the same order
// give the same clusters on any number of threads.
std::vector<int64_t> clusters_of(std::span<const float> vectors, int64_t size, const KMeans& how);

}  // namespace kinora::dedup
