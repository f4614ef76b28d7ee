#include "plugins/jobs/select/sampling.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "plugins/jobs/loading/held_out.hpp"

namespace kinora::core {
namespace {

// Eight sums at once, which processors add in parallel.
float product(const float* a, const float* b, size_t size) {
  std::array<float, 8> sums{};
  size_t i = 0;
  for (; i + sums.size() <= size; i += sums.size())
    for (size_t j = 0; j < sums.size(); ++j) sums[j] += a[i + j] * b[i + j];
  float out = 0;
  for (; i < size; ++i) out += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), out);
}

void scale_to_one(float* row, size_t size) {
  double squares = 0;
  for (size_t i = 0; i < size; ++i) squares += double{row[i]} * row[i];
  for (size_t i = 0; squares > 0 && i < size; ++i) row[i] = static_cast<float>(row[i] / std::sqrt(squares));
}

}  // namespace

std::vector<size_t> random_places(const std::vector<std::string>& keys, size_t count, int64_t seed) {
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < keys.size(); ++i)
    order.emplace_back(hash_of("sample " + std::to_string(seed) + " " + keys[i]), i);
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : keys[a.second] < keys[b.second];
  });
  std::vector<size_t> out;
  for (size_t i = 0; i < std::min(count, order.size()); ++i) out.push_back(order[i].second);
  return out;
}

std::vector<size_t> farthest_places(std::vector<float>& vectors, size_t size, size_t count,
                                    const std::vector<size_t>& first,
                                    const std::function<void(size_t)>& step) {
  const size_t rows = size == 0 ? 0 : vectors.size() / size;
  const auto row = [&](size_t i) { return vectors.data() + i * size; };
  for (size_t i = 0; i < rows; ++i) scale_to_one(row(i), size);
  std::vector<float> nearest(rows,
                             -2);  // cosine with the nearest chosen row; below every cosine: none is chosen
  std::vector<bool> is_chosen(rows);
  std::vector<size_t> out;
  const auto choose = [&](size_t place) {
    out.push_back(place);
    is_chosen[place] = true;
    for (size_t i = 0; i < rows; ++i) nearest[i] = std::max(nearest[i], product(row(place), row(i), size));
    step(out.size());
  };
  for (const size_t place : first) choose(place);
  while (out.size() < std::min(count, rows)) {
    size_t best = rows;
    for (size_t i = 0; i < rows; ++i)
      if (!is_chosen[i] && (best == rows || nearest[i] < nearest[best])) best = i;
    choose(best);
  }
  return out;
}

size_t set_at(const std::vector<double>& asked, double share) {
  double end = 0;
  for (size_t i = 0; i + 1 < asked.size(); ++i)
    if (end += asked[i]; share < end) return i;
  return asked.size() - 1;
}

std::map<double, size_t> moved_shares(const std::vector<double>& asked, const std::set<double>& shares) {
  constexpr size_t kFewest = 3;
  std::map<double, size_t> out;
  if (shares.size() < std::max(kFewest, asked.size())) return out;
  std::map<double, size_t> now;
  std::vector<size_t> sizes(asked.size());
  for (const double share : shares) ++sizes[now[share] = set_at(asked, share)];
  double begin = 0;
  for (size_t set = 0; set < asked.size(); begin += asked[set++]) {
    if (sizes[set] > 0) continue;
    const auto away = [&, end = begin + asked[set]](double share) {
      return std::max(begin - share, share - end);
    };
    const std::pair<const double, size_t>* nearest = nullptr;
    for (const auto& one : now)
      if (sizes[one.second] > 1 && (!nearest || away(one.first) < away(nearest->first))) nearest = &one;
    --sizes[nearest->second], ++sizes[set];
    now[nearest->first] = out[nearest->first] = set;
  }
  return out;
}

}  // namespace kinora::core
