#include "plugins/jobs/training/microbatches.hpp"

#include <algorithm>
#include <numeric>

#include "plugins/jobs/training/buckets.hpp"

namespace kinora::core {

const Microbatches::Step& Microbatches::of_step(int64_t step) {
  if (const auto known = steps_.find(step); known != steps_.end()) return known->second;
  auto sizes = samples_->latent_sizes(step * options_.batch, options_.batch);
  auto division = divided(sizes, static_cast<size_t>(options_.accumulate * parallel_.data_size()),
                          options_.are_buckets());
  return steps_[step] = {std::move(sizes), std::move(division)};
}

std::vector<int64_t> Microbatches::numbers(int64_t first, int64_t count) {
  std::vector<int64_t> out;
  if (!are_divided()) {
    out.resize(static_cast<size_t>(count));
    std::iota(out.begin(), out.end(), first);
    return out;
  }
  const int64_t step = first / options_.batch, begin = step * options_.batch;
  for (const size_t i : of_step(step).division.rows.at(static_cast<size_t>((first - begin) / count)))
    out.push_back(begin + static_cast<int64_t>(i));
  return out;
}

std::vector<int64_t> Microbatches::numbers_of_step(int64_t step) {
  std::vector<int64_t> out;
  for (int64_t i = 0; step < options_.steps && i < options_.accumulate; ++i) {
    const int64_t before = i * parallel_.data_size() + parallel_.data_rank();
    const auto more = numbers(step * options_.batch + before * count(), count());
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

std::map<int64_t, double> Microbatches::examples() {
  const auto& sizes = of_step(0).sizes;
  std::map<int64_t, double> out;
  for (const auto& size : sizes)
    out[std::find(sizes.begin(), sizes.end(), size) - sizes.begin()] += 1 / static_cast<double>(sizes.size());
  return out;
}

}  // namespace kinora::core
