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

std::vector<std::vector<Near>> nearest_before(std::span<const float> vectors, int64_t size,
                                              std::span<const int64_t> cluster, double least, size_t most) {
  std::map<int64_t, std::vector<size_t>> members;  // in keep order
  for (size_t i = 0; i < cluster.size(); ++i) members[cluster[i]].push_back(i);
  std::vector<std::vector<Near>> out(cluster.size());
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
      auto& near = out[rows_of[n]];
      for (size_t earlier = 0; earlier < n; ++earlier)
        if (products[earlier] >= least)
          near.push_back({static_cast<int64_t>(rows_of[earlier]), products[earlier]});
      std::stable_sort(near.begin(), near.end(),
                       [](const Near& a, const Near& b) { return a.similarity > b.similarity; });
      near.resize(std::min(near.size(), most));
      near.shrink_to_fit();
    }
  }
  return out;
}

}  // namespace kinora::dedup
