#include "clusters.hpp"

#include <algorithm>

#include <faiss/Clustering.h>
#include <faiss/IndexFlat.h>

namespace kinora::dedup {

int64_t clusters_for(const KMeans& how, int64_t count) {
  constexpr int64_t kPerCluster = 1024;
  const int64_t wanted = how.clusters > 0 ? how.clusters : (count + kPerCluster - 1) / kPerCluster;
  return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, count));
}

std::vector<int64_t> clusters_of(std::span<const float> vectors, int64_t size, const KMeans& how) {
  const auto count = static_cast<int64_t>(vectors.size()) / std::max<int64_t>(size, 1);
  const int64_t k = clusters_for(how, count);
  std::vector<int64_t> out(static_cast<size_t>(count), 0);
  if (k == 1) return out;
  faiss::ClusteringParameters parameters;
  parameters.niter = static_cast<int>(how.iterations);
  parameters.seed = static_cast<int>(how.seed);
  parameters.spherical = true;
  parameters.min_points_per_centroid = 1;  // do not warn about few points
  faiss::Clustering clustering(static_cast<int>(size), static_cast<int>(k), parameters);
  faiss::IndexFlatIP index(size);
  clustering.train(count, vectors.data(), index);
  index.assign(count, vectors.data(), out.data());
  return out;
}

}  // namespace kinora::dedup
