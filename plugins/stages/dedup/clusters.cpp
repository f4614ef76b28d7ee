#include "clusters.hpp"

#include <algorithm>
#include <map>

#include <faiss/Clustering.h>
#include <faiss/IndexFlat.h>
#include <faiss/utils/distances.h>

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

std::vector<Near> nearest_before(std::span<const float> vectors, int64_t size,
                                 std::span<const int64_t> cluster) {
  std::map<int64_t, std::vector<size_t>> members;  // in keep order
  for (size_t i = 0; i < cluster.size(); ++i) members[cluster[i]].push_back(i);
  std::vector<Near> out(cluster.size());
  const auto width = static_cast<size_t>(size);
  std::vector<float> rows, products;
  for (const auto& [number, rows_of] : members) {
    rows.clear();
    for (const size_t i : rows_of)
      rows.insert(rows.end(), vectors.begin() + static_cast<int64_t>(i * width),
                  vectors.begin() + static_cast<int64_t>((i + 1) * width));
    products.resize(rows_of.size());
    for (size_t n = 1; n < rows_of.size(); ++n) {
      faiss::fvec_inner_products_ny(products.data(), rows.data() + n * width, rows.data(), width, n);
      const auto best = std::max_element(products.begin(), products.begin() + static_cast<int64_t>(n));
      out[rows_of[n]] = {static_cast<int64_t>(rows_of[static_cast<size_t>(best - products.begin())]), *best};
    }
  }
  return out;
}

}  // namespace kinora::dedup
