#include "near.hpp"

#include <algorithm>
#include <map>

#include <faiss/utils/distances.h>

namespace kinora::dedup {

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
