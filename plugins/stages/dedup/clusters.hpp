// Searches near duplicates among embeddings with faiss: spherical k-means, then cosines within each cluster.
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

// Number of clusters for `count` vectors: at least 1, at most one per vector.
int64_t clusters_for(const KMeans&, int64_t count);

// Returns the cluster of each row of `vectors` [count, size], rows of norm 1. The same vectors in the same
// order give the same clusters on any number of threads.
std::vector<int64_t> clusters_of(std::span<const float> vectors, int64_t size, const KMeans& how);

// SemDeDup's rule (arXiv 2303.09540; Cosmos-Curate and NeMo Curator use it): within a cluster, in keep order,
// a clip is dropped because of an earlier clip that it is like, whether or not the earlier clip is kept.
struct Near {
  int64_t of = -1;        // row of the earlier clip
  float similarity = -1;  // cosine with that clip
};

// vectors [count, size], rows of norm 1, in keep order; cluster [count]. Returns for each row the earlier rows
// of its cluster whose cosine is at least `least`: the most similar first, at most `most`. Needs memory for
// one copy of the largest cluster.
std::vector<std::vector<Near>> nearest_before(std::span<const float> vectors, int64_t size,
                                              std::span<const int64_t> cluster, double least, size_t most);

}  // namespace kinora::dedup
