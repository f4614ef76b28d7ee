#include "apps/studio/map.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace kinora::studio {
namespace {

// Points (5 a, b) in the plane of two orthogonal directions of a space with 40 dimensions, far from its origin.
struct Plane {
  static constexpr size_t kSize = 40;
  std::vector<float> rows;
  std::vector<std::array<double, 2>> places;
};

Plane plane() {
  Plane out;
  std::mt19937 random(3);
  const auto unit = [&] { return static_cast<double>(random()) / 4294967296.0 - 0.5; };
  for (int i = 0; i < 200; ++i) {
    const double a = 5 * unit(), b = unit();
    out.places.push_back({a, b});
    for (size_t j = 0; j < Plane::kSize; ++j) {
      const double first = j < 20 ? 1 : 0, second = j >= 20 ? (j % 2 == 0 ? 1 : -1) : 0;
      out.rows.push_back(static_cast<float>(7 + (a * first + b * second) / std::sqrt(20.0)));
    }
  }
  return out;
}

double correlation(const std::vector<Place>& places, const Plane& plane, size_t axis) {
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  const auto n = static_cast<double>(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const double a = places[i][axis], b = plane.places[i][axis];
    x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
  }
  return (n * xy - x * y) / std::sqrt((n * xx - x * x) * (n * yy - y * y));
}

TEST(PrincipalPlaces, FindTheTwoDirectionsOfMostVariationInTheirOrder) {
  const Plane all = plane();
  const auto places = principal_places(all.rows, Plane::kSize);
  ASSERT_EQ(places.size(), 200U);
  EXPECT_GT(std::abs(correlation(places, all, 0)), 0.99);
  EXPECT_GT(std::abs(correlation(places, all, 1)), 0.99);
  for (size_t i = 1; i < places.size(); ++i) {
    const double wanted =
        std::hypot(all.places[i][0] - all.places[0][0], all.places[i][1] - all.places[0][1]);
    EXPECT_NEAR(std::hypot(places[i][0] - places[0][0], places[i][1] - places[0][1]), wanted, 1e-3) << i;
  }
  EXPECT_EQ(principal_places(all.rows, Plane::kSize), places) << "the same rows give the same map";
}

TEST(PrincipalPlaces, OfEqualRowsAndOfNoneAreFinite) {
  const std::vector<float> equal(30, 0.25F);
  for (const auto& place : principal_places(equal, 10)) EXPECT_TRUE(place[0] == 0 && place[1] == 0);
  const std::vector<float> line{1, 0, 2, 0, 3, 0};
  for (const auto& place : principal_places(line, 2)) EXPECT_TRUE(std::isfinite(place[0]) && place[1] == 0);
  EXPECT_TRUE(principal_places({}, 10).empty());
}

}  // namespace
}  // namespace kinora::studio
