#include "apps/studio/map.hpp"

#include <algorithm>
#include <cmath>

namespace kinora::studio {
namespace {

using Direction = std::vector<double>;

constexpr int kMostSteps = 60;
constexpr double kSettled = 1e-6;  // change of a direction of length 1

double product(const Direction& a, const Direction& b) {
  double out = 0;
  for (size_t j = 0; j < a.size(); ++j) out += a[j] * b[j];
  return out;
}

// Length 1, or 0 if nothing is left of it; orthogonal to `other`.
void normalize(Direction& one, const Direction* other) {
  const double before = std::sqrt(product(one, one));
  if (const double along = other ? product(one, *other) : 0; other)
    for (size_t j = 0; j < one.size(); ++j) one[j] -= along * (*other)[j];
  const double length = std::sqrt(product(one, one));
  const bool is_lost = !(length > 1e-9 * before);
  for (double& x : one) x = is_lost ? 0 : x / length;
}

// Rows minus their mean.
struct Centred {
  std::span<const float> rows;
  Direction mean;

  Centred(std::span<const float> all, size_t size) : rows(all), mean(size) {
    for (size_t i = 0; i < all.size(); ++i) mean[i % size] += all[i];
    for (double& x : mean) x *= static_cast<double>(size) / static_cast<double>(all.size());
  }
  size_t count() const { return rows.size() / mean.size(); }
  double along(size_t row, const Direction& direction) const {
    double out = 0;
    const float* at = rows.data() + row * mean.size();
    for (size_t j = 0; j < mean.size(); ++j) out += (at[j] - mean[j]) * direction[j];
    return out;
  }
  // Covariance times direction, up to a factor.
  Direction spread(const Direction& direction) const {
    Direction out(mean.size());
    for (size_t i = 0; i < count(); ++i) {
      const double weight = along(i, direction);
      const float* at = rows.data() + i * mean.size();
      for (size_t j = 0; j < mean.size(); ++j) out[j] += weight * (at[j] - mean[j]);
    }
    return out;
  }
};

Direction first_guess(size_t size, double frequency) {
  Direction out(size);
  for (size_t j = 0; j < size; ++j) out[j] = std::sin(frequency * static_cast<double>(j + 1));
  return out;
}

void fix_sign(Direction& one) {
  const auto largest = std::ranges::max_element(one, {}, [](double x) { return std::abs(x); });
  if (*largest < 0)
    for (double& x : one) x = -x;
}

std::array<Direction, 2> principal(const Centred& all) {
  std::array<Direction, 2> now{first_guess(all.mean.size(), 1.0), first_guess(all.mean.size(), 2.4)};
  for (int step = 0; step < kMostSteps; ++step) {
    std::array<Direction, 2> next{all.spread(now[0]), all.spread(now[1])};
    normalize(next[0], nullptr);
    normalize(next[1], &next[0]);
    const double same = std::min(std::abs(product(now[0], next[0])), std::abs(product(now[1], next[1])));
    now = std::move(next);
    if (same > 1 - kSettled * kSettled) break;
  }
  for (auto& direction : now) fix_sign(direction);
  return now;
}

}  // namespace

std::vector<Place> principal_places(std::span<const float> rows, size_t size) {
  if (size == 0 || rows.empty()) return {};
  const Centred all(rows, size);
  const auto [first, second] = principal(all);
  std::vector<Place> out;
  for (size_t i = 0; i < all.count(); ++i)
    out.push_back({static_cast<float>(all.along(i, first)), static_cast<float>(all.along(i, second))});
  return out;
}

}  // namespace kinora::studio
