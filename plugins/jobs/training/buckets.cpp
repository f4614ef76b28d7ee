#include "plugins/jobs/training/buckets.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kinora/error.hpp"

namespace kinora::core {
namespace {

struct Bucket {
  int64_t positions;  // of a sample
  std::vector<size_t> samples;
  size_t microbatches = 1;

  bool can_divide() const { return microbatches < samples.size(); }
  int64_t largest() const {
    return positions * static_cast<int64_t>((samples.size() + microbatches - 1) / microbatches);
  }
};

std::vector<Bucket> buckets_of(const std::vector<LatentSize>& sizes) {
  std::map<LatentSize, Bucket> found;
  for (size_t i = 0; i < sizes.size(); ++i)
    found.try_emplace(sizes[i], Bucket{positions_of(sizes[i]), {}}).first->second.samples.push_back(i);
  std::vector<Bucket> out;
  for (auto& [size, bucket] : found) out.push_back(std::move(bucket));
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.positions > b.positions; });
  return out;
}

}  // namespace

Packing in_buckets(const std::vector<LatentSize>& sizes, size_t microbatches) {
  auto buckets = buckets_of(sizes);
  if (buckets.size() > microbatches)
    throw Error(KINORA_ERROR_INVALID, fmt::format("{} sizes do not fit {} microbatches of one size each",
                                                  buckets.size(), microbatches));
  for (size_t left = microbatches - buckets.size(); left > 0; --left)
    ++std::max_element(buckets.begin(), buckets.end(), [](const auto& a, const auto& b) {
        return std::pair(a.can_divide(), a.largest()) < std::pair(b.can_divide(), b.largest());
      })->microbatches;
  Packing out;
  int64_t all = 0, largest = 0;
  for (const auto& bucket : buckets) {
    const size_t n = bucket.samples.size();
    const auto at = [&](size_t part) {
      return bucket.samples.begin() + static_cast<std::ptrdiff_t>(part * n / bucket.microbatches);
    };
    for (size_t part = 0; part < bucket.microbatches; ++part) out.rows.emplace_back(at(part), at(part + 1));
    all += bucket.positions * static_cast<int64_t>(n);
    largest = std::max(largest, bucket.largest());
  }
  if (largest > 0)
    out.efficiency =
        static_cast<double>(all) / static_cast<double>(microbatches) / static_cast<double>(largest);
  return out;
}

Packing divided(const std::vector<LatentSize>& sizes, size_t microbatches, bool are_buckets) {
  if (are_buckets) return in_buckets(sizes, microbatches);
  std::vector<int64_t> costs;
  for (const auto& size : sizes) costs.push_back(positions_of(size));
  return pack(costs, microbatches);
}

}  // namespace kinora::core
