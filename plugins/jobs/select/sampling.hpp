// Chooses some of many clips: at random, or those that differ the most.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kinora::core {

// Places of `count` of the keys, in an order that the seed and each key alone decide: the choice does not depend on the
// order of the keys, and a key that is added or removed changes at most one place of it. All if there are not more.
std::vector<size_t> random_places(const std::vector<std::string>& keys, size_t count, int64_t seed);

// Farthest point first (Gonzalez 1985): places of `count` rows of `vectors` [rows, size], beginning with
// those of `first`, or with row 0 if `first` is empty; each next one has the smallest cosine with the nearest
// chosen row, ties by the smaller place. Exact: count * rows * size products. Scales the rows to length 1; a
// row of zeros has the cosine 0 with all. step: is called after each choice with the number of chosen rows.
std::vector<size_t> farthest_places(std::vector<float>& vectors, size_t size, size_t count,
                                    const std::vector<size_t>& first,
                                    const std::function<void(size_t)>& step);

}  // namespace kinora::core
